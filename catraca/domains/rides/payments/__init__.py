"""Payments: completed rides become paid, or their time to pay ends."""
