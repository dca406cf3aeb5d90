"""HTTP: server, middleware, routes with transactions, problems, limits."""
