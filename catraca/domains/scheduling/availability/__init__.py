"""Free slots, and why a time is not free: read in one query, computed per request, never stored."""
