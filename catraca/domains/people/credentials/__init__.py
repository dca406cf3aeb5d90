"""Credentials: sign-in by e-mail and password, and one-use password links."""
