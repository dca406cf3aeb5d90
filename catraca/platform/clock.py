"""Time for logs, metrics and pacing. Time that decides something is the database's `clock_timestamp()`."""

import time
from datetime import UTC, date, datetime
from typing import Final

# The range of dates and moments in requests. Python's first and last date would be infinite in PostgreSQL.
FIRST_DAY: Final = date(1970, 1, 1)
LAST_DAY: Final = date(2199, 12, 31)
FIRST_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
END_OF_MOMENTS: Final = datetime(2200, 1, 1, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


def monotonic_seconds() -> float:
    return time.monotonic()
