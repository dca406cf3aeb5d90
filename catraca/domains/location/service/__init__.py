"""Use cases on where drivers are: presence, pings, searching, locks, and telling of those on a ride."""
