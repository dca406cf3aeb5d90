"""Asking for a ride in a community, confirming that others will do, and what becomes of the question."""
