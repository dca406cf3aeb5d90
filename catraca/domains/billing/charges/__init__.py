"""Charges: opened when a ride is completed, and paid by what is received for them."""
