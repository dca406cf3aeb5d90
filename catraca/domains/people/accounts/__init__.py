"""Accounts: first use, profile, roles, sign-out, export and erasure."""
