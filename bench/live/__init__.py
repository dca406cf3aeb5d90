"""Told live, measured: from committed rows to clients, what a socket costs, positions on their way."""
