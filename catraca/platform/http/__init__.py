"""The HTTP edge: what every route shares."""
