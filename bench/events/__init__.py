"""Benchmarks of events: from committed row to handled event, against bare loops on the same transport."""
