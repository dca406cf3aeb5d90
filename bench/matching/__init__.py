"""Matching, measured: from a ride that is asked for to the driver who has it."""
