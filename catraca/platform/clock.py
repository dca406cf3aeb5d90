"""Time for logs, metrics and pacing. Time that decides something is the database's `clock_timestamp()`."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def monotonic_seconds() -> float:
    return time.monotonic()
