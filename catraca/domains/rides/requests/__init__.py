"""Requesting a ride."""
