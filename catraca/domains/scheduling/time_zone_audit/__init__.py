"""Appointments whose local time has changed, because a government changed the rules of time."""
