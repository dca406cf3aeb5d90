"""The published language: what domains tell each other, as frozen types."""
