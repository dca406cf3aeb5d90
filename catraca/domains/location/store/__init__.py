"""Where location keeps things: presence in PostgreSQL, which decides, and the map in Redis, which hurries."""
