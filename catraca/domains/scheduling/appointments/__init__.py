"""Appointments, their seats and claims on time: what booking, holds, series and the waitlist build on."""
