"""Benchmarks of scheduling: finding free slots, and booking."""
