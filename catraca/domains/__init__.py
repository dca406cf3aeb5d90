"""The business, one folder a domain; each is reached by its package name only."""
