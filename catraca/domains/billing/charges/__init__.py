"""Charges: opened when a ride is completed, and paid by the driver's confirmation of the cash."""
