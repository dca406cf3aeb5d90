"""Catraca: one claim, one winner."""
