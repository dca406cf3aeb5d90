"""Measures how many timers are set, and how many of them are overdue."""

from prometheus_client import Gauge

from catraca.platform.database import timers
from catraca.roles.parts import Parts
from catraca.roles.runner import MEASURE_SECONDS, Life, repeat

PENDING = Gauge(
    "catraca_timers_pending",
    "Timers set, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
OVERDUE = Gauge(
    "catraca_timers_overdue",
    "Timers that are due and did not fire in time, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)


class TimerGauges:
    def __init__(self, parts: Parts) -> None:
        self._database = parts.database
        self._measured: set[timers.TimerKind] = set()

    async def run(self, life: Life) -> None:
        await repeat(self._measure, MEASURE_SECONDS, life)

    async def _measure(self) -> None:
        async with self._database.connection() as db:
            counts = {count.kind: count for count in await timers.count_timers(db)}
        # A kind that has none left is set to 0, or its last value would stay.
        self._measured |= counts.keys()
        for kind in self._measured:
            count = counts.get(kind)
            PENDING.labels(kind).set(count.pending if count else 0)
            OVERDUE.labels(kind).set(count.overdue if count else 0)
