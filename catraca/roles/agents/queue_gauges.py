"""Measures how many messages wait in the queues, and how many dead letters wait for an operator."""

from prometheus_client import Gauge

from catraca.domains.dead_letters.letters.store import count_waiting
from catraca.roles.parts import Parts

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
DEAD_LETTERS = Gauge(
    "catraca_dead_letters",
    "Dead letters that wait for an operator, by queue and reason; counted up to 10 000.",
    ["queue", "reason"],
    multiprocess_mode="livemostrecent",
)
# A group that is gone is set to 0, or its last value would stay.
_groups: set[tuple[str, str]] = set()


async def measure_queues(parts: Parts) -> None:
    for queue, depth in (await parts.bus.depths()).items():
        QUEUE_DEPTH.labels(queue).set(depth)
    for queue, depth in (await parts.bus.retrying()).items():
        RETRY_DEPTH.labels(queue).set(depth)


async def measure_dead_letters(parts: Parts) -> None:
    async with parts.database.connection() as db:
        counts = await count_waiting(db)
    _groups.update(counts)
    for group in _groups:
        DEAD_LETTERS.labels(*group).set(counts.get(group, 0))
