"""Free slots: read in one query, computed per request, never stored."""
