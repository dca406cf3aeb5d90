"""Time off of workers and rooms: a claim on their time, under the same constraint as bookings."""
