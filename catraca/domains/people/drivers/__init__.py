"""Drivers: vehicle, home community and approval."""
