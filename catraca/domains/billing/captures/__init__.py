"""Captures: money that was received, in cash by the driver or on the co-operative's bank account."""
