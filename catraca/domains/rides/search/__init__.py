"""The search for a driver: the ride's offers, its deadline and its timer."""
