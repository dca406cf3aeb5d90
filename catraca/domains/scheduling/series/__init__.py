"""Series: appointments booked together, at the same local time every day, week or month."""
