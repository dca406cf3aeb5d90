"""Benchmarks of drivers' positions: pings recorded, and drivers found nearby."""
