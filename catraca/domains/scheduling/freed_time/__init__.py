"""Time that became free while a client waits for it: recorded by what frees it, read by the waitlist."""
