"""Everything that happened to one charge, in order."""
