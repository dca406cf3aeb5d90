"""Half of the load that the server can bear, for long: memory, files and latency must not grow."""
