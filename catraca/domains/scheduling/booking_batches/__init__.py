"""Book an appointment: bookings that arrive together are made in one transaction."""
