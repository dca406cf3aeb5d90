"""Measures how many dead letters wait for an operator."""

from prometheus_client import Gauge

from catraca.domains.dead_letters import count_waiting
from catraca.roles.parts import Parts
from catraca.roles.runner import MEASURE_SECONDS, Life, repeat

DEAD_LETTERS = Gauge(
    "catraca_dead_letters",
    "Dead letters that wait for an operator, by queue and reason; counted up to 10 000.",
    ["queue", "reason"],
    multiprocess_mode="livemostrecent",
)


class DeadLetterGauges:
    def __init__(self, parts: Parts) -> None:
        self._database = parts.database
        self._measured: set[tuple[str, str]] = set()

    async def run(self, life: Life) -> None:
        await repeat(self.measure, MEASURE_SECONDS, life)

    async def measure(self) -> None:
        async with self._database.connection() as db:
            counts = await count_waiting(db)
        # A group that is gone is set to 0, or its last value would stay.
        self._measured |= counts.keys()
        for group in self._measured:
            DEAD_LETTERS.labels(*group).set(counts.get(group, 0))
