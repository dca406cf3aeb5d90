"""Which queues are full. Counting rows at every publish would cost more than publishing."""

from collections import Counter
from collections.abc import Iterable

from catraca.platform.bus.postgres import tables
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db

COUNT_SECONDS = 10.0
# Counted more often if a queue may be full, but not for each message: counting a long queue is slow.
DOUBT_SECONDS = 0.5
UNCERTAIN_SHARE = 0.1


class Room:
    """Counts queues every few seconds, and adds what this process published since."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._counted: dict[str, int] = {}
        self._counted_at = float("-inf")
        self._added: Counter[str] = Counter()

    async def is_there(self, db: Db, queue: Queue, *, staged: int) -> bool:
        """True if the queue has room for one more message beside the `staged` ones."""
        age_seconds = monotonic_seconds() - self._counted_at
        if age_seconds > COUNT_SECONDS or (age_seconds > DOUBT_SECONDS and self._in_doubt(queue, staged)):
            await self._count(db)
        return self._used(queue) + staged < queue.max_length

    def add(self, queues: Iterable[str]) -> None:
        self._added.update(queues)

    def _used(self, queue: Queue) -> int:
        return self._counted[queue.name] + self._added[queue.name]

    def _in_doubt(self, queue: Queue, staged: int) -> bool:
        """True if much was added since the count; other processes may have added as much."""
        added = self._added[queue.name] + staged
        return added > (queue.max_length - self._counted[queue.name]) * UNCERTAIN_SHARE

    async def _count(self, db: Db) -> None:
        queues = self._topology.queues
        self._counted = await tables.count_messages(
            db, [queue.name for queue in queues], at_most=[queue.max_length for queue in queues]
        )
        self._counted_at = monotonic_seconds()
        self._added.clear()
