"""Technical parts without business rules: database, bus, HTTP, Redis, embedded servers."""
