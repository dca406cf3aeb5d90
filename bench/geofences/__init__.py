"""Community rides, measured: which fences a place is in, and what asking and confirming cost."""
