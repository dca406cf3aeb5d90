"""Appointments, their seats and claims on time. Booking, holds, series and the waitlist use it."""
