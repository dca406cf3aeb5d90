"""Holds: a time is kept for a client for a while, and then booked, released or expired."""
