"""Accepting a ride: one winner."""
