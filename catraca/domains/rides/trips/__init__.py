"""Trips: arrive, start, complete, cancel."""
