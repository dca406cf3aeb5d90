"""Every statement of rides, a file for each table they are about."""
