"""Scheduling, measured: how fast it is known what is free, and what booking it costs."""
