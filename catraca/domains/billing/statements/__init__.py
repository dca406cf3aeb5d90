"""Statements: what was posted to a driver's account, with the balance after each posting."""
