"""Benchmarks of matching: from a requested ride to its match."""
