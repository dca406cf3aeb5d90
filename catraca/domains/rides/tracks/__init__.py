"""Tracks: how far the driver of a started ride has come, by the pings."""
