"""Flags: rides that an operator should look at."""
