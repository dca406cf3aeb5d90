"""Where drivers are, measured: pings taken, and drivers found near by."""
