"""Rides under load: accepts of distinct rides, and of one ride by many."""
