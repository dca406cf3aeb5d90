"""Every statement of matching, a file for each table they are about."""
