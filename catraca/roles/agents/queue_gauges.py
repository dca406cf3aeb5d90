"""Measures how many messages wait in the queues."""

from prometheus_client import Gauge

from catraca.roles.parts import Parts
from catraca.roles.runner import MEASURE_SECONDS, Life, repeat

# Of living processes only: the last value of a dead process is no longer true.
QUEUE_DEPTH = Gauge(
    "catraca_bus_queue_depth", "Messages waiting in a queue.", ["queue"], multiprocess_mode="livemostrecent"
)
RETRY_DEPTH = Gauge(
    "catraca_bus_retry_depth",
    "Messages waiting for a retry, by the queue they wait in.",
    ["queue"],
    multiprocess_mode="livemostrecent",
)


class QueueGauges:
    def __init__(self, parts: Parts) -> None:
        self._bus = parts.bus

    async def run(self, life: Life) -> None:
        await repeat(self.measure, MEASURE_SECONDS, life)

    async def measure(self) -> None:
        for queue, depth in (await self._bus.depths()).items():
            QUEUE_DEPTH.labels(queue).set(depth)
        for queue, depth in (await self._bus.retrying()).items():
            RETRY_DEPTH.labels(queue).set(depth)
