"""Book, reschedule, swap, confirm and cancel appointments, record no-shows, send reminders."""
