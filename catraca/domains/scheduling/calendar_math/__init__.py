"""Time spans, time zones, working hours and public holidays. Pure: no database, no clock."""
