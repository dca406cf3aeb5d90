"""Calendar files (iCalendar) of appointments, and calendar links of workers."""
