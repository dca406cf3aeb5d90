"""Benchmarks of community rides: the fences around a place, requests and confirmations."""
