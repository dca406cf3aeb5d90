"""Offers of a ride to drivers."""
