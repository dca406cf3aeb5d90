"""Reading rides, for parties and operators."""
