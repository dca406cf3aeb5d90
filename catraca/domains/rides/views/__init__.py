"""Reading rides: what each party may see."""
