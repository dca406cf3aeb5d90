"""Replay of dead letters, with editing before it and discarding instead of it."""
