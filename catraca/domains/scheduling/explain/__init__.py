"""Why a time can or cannot be booked, worker by worker."""
