"""Benchmarks of notifications and sockets: deliveries, cost of a socket, positions."""
