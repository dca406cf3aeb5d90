"""Inserts notifications as the notifier role does: a batch, a transaction, an announcement."""

import asyncio
import gc
from collections.abc import Sequence
from time import monotonic, perf_counter, process_time
from uuid import UUID

import msgspec

from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, Notifier
from catraca.domains.notifications.model import SourceEvent
from catraca.events import TOPOLOGY, RideStarted
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from catraca.platform.database import PREFER_INDEXES, Database, Db
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient, RedisLimits

# As many as the notifier takes from its queue at a time.
BATCH = TOPOLOGY.queue("notification_rides_queue").batch


class Orders(msgspec.Struct, frozen=True):
    """Notify each user `each` times: as fast as possible, or `a_second` in total."""

    database_url: str
    redis_url: str | None
    people: list[UUID]
    each: int
    a_second: float | None = None


class NotifyResult(msgspec.Struct, frozen=True):
    """Start, cost, and the time of each commit by user."""

    began_at: float
    seconds: float
    cpu_seconds: float
    announcing_seconds: float
    times: list[list[float]]


class NotifierLoad:
    def __init__(self, database: Database, redis: RedisClient, orders: Orders) -> None:
        self._database = database
        self._orders = orders
        self._notifier = Notifier(self._announce, currency="BRL")
        self._redis = redis
        self._times: dict[UUID, list[float]] = {one: [] for one in orders.people}
        # Made before the clock starts: the role gets its events from a queue, and holds few of them.
        self._events = [_event(one) for _ in range(orders.each) for one in orders.people]
        gc.freeze()
        # Committed and not yet announced.
        self._unannounced = 0
        self._all_announced = asyncio.Event()
        self._announcing_seconds = 0.0

    async def run(self) -> NotifyResult:
        began_at, began, worked = monotonic(), perf_counter(), process_time()
        if self._orders.a_second is None:
            await self._notify_in_batches()
        else:
            await self._notify_at_pace(self._orders.a_second)
        await self._all_announced.wait()
        return NotifyResult(
            began_at,
            perf_counter() - began,
            process_time() - worked,
            self._announcing_seconds,
            list(self._times.values()),
        )

    async def _notify_in_batches(self) -> None:
        for start in range(0, len(self._events), BATCH):
            await self._notify(self._events[start : start + BATCH])

    async def _notify_at_pace(self, a_second: float) -> None:
        """Start each at its time, in its own transaction, without waiting for the one before."""
        began = perf_counter()
        tasks: list[asyncio.Task[None]] = []
        for number, event in enumerate(self._events):
            await asyncio.sleep(max(0.0, began + number / a_second - perf_counter()))
            tasks.append(asyncio.create_task(self._notify([event])))
        await asyncio.gather(*tasks)

    async def _notify(self, events: Sequence[RideStarted]) -> None:
        sources = [SourceEvent(event.ride_id, event) for event in events]

        async def work(db: Db) -> None:
            db.after_commit(lambda: self._note(events))
            await self._notifier.notify(db, sources)

        await self._database.run(work)

    def _note(self, events: Sequence[RideStarted]) -> None:
        at = monotonic()
        self._unannounced += 1
        self._all_announced.clear()
        for event in events:
            self._times[event.rider_id].append(at)

    async def _announce(self, payload: bytes) -> object:
        began = perf_counter()
        try:
            return await redis_pubsub.publish(self._redis, NOTIFICATIONS_CHANNEL, payload)
        finally:
            self._announcing_seconds += perf_counter() - began
            self._unannounced -= 1
            if not self._unannounced:
                self._all_announced.set()


def _event(user_id: UUID) -> RideStarted:
    return RideStarted(ride_id=new_id(), rider_id=user_id, driver_id=user_id, round=1, started_at=now())


async def notify(orders: Orders) -> NotifyResult:
    database = await Database.open(orders.database_url, planning=PREFER_INDEXES)
    # A long limit, so that a busy machine causes no timeouts.
    redis = RedisClient(orders.redis_url, limits=RedisLimits(answer_seconds=10))
    try:
        return await NotifierLoad(database, redis, orders).run()
    finally:
        await redis.close()
        await database.close()
