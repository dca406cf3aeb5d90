"""Measures how far the relay is behind."""

from prometheus_client import Gauge

from catraca.platform.database import outbox
from catraca.roles.parts import Parts
from catraca.roles.runner import MEASURE_SECONDS, Life, repeat

DEPTH = Gauge(
    "catraca_outbox_depth",
    "Events not published yet; counted up to 100 000.",
    multiprocess_mode="livemostrecent",
)
AGE = Gauge(
    "catraca_outbox_age_seconds",
    "Age of the oldest event not published yet.",
    multiprocess_mode="livemostrecent",
)


class OutboxGauges:
    def __init__(self, parts: Parts) -> None:
        self._database = parts.database

    async def run(self, life: Life) -> None:
        await repeat(self._measure, MEASURE_SECONDS, life)

    async def _measure(self) -> None:
        async with self._database.connection() as db:
            depth, age_seconds = await outbox.backlog(db)
        DEPTH.set(depth)
        AGE.set(age_seconds)
