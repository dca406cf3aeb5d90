"""Tells people things as the notifier does: a batch, a transaction, an announcement."""

import asyncio
from collections.abc import Sequence
from time import monotonic, perf_counter, process_time
from uuid import UUID, uuid4

import msgspec

from catraca.domains.notifications import NOTIFICATIONS_CHANNEL, Notifier
from catraca.domains.notifications.model import SourceEvent
from catraca.events import TOPOLOGY, RideStarted
from catraca.platform import redis_pubsub
from catraca.platform.clock import now
from catraca.platform.database import Database, Db
from catraca.platform.redis_client import RedisClient, RedisLimits

# As many as the notifier takes from its queue at a time.
BATCH = TOPOLOGY.queue("notification_rides_queue").batch


class Orders(msgspec.Struct, frozen=True):
    """Tell each of these people so many things: as fast as it goes, or so many a second."""

    database_url: str
    redis_url: str | None
    people: list[UUID]
    each: int
    a_second: float | None = None


class Told(msgspec.Struct, frozen=True):
    """When it began, what it cost, and of each when it was committed: by person, in order."""

    began_at: float
    seconds: float
    cpu_seconds: float
    announcing_seconds: float
    times: list[list[float]]


class NewNotification:
    def __init__(self, database: Database, redis: RedisClient, orders: Orders) -> None:
        self._database = database
        self._orders = orders
        self._notifier = Notifier(self._announce, currency="BRL")
        self._redis = redis
        self._times: dict[UUID, list[float]] = {one: [] for one in orders.people}
        # Committed and not yet announced.
        self._unannounced = 0
        self._all_announced = asyncio.Event()
        self._announcing_seconds = 0.0

    async def run(self) -> Told:
        began_at, began, worked = monotonic(), perf_counter(), process_time()
        if self._orders.a_second is None:
            await self._tell_in_batches()
        else:
            await self._tell_at_pace(self._orders.a_second)
        await self._all_announced.wait()
        return Told(
            began_at,
            perf_counter() - began,
            process_time() - worked,
            self._announcing_seconds,
            list(self._times.values()),
        )

    async def _tell_in_batches(self) -> None:
        everybody = [one for _ in range(self._orders.each) for one in self._orders.people]
        for start in range(0, len(everybody), BATCH):
            await self._tell(everybody[start : start + BATCH])

    async def _tell_at_pace(self, a_second: float) -> None:
        """Each when it is due, in a transaction of its own, whether or not the one before is through."""
        began = perf_counter()
        telling: list[asyncio.Task[None]] = []
        for number in range(self._orders.each * len(self._orders.people)):
            await asyncio.sleep(max(0.0, began + number / a_second - perf_counter()))
            person = self._orders.people[number % len(self._orders.people)]
            telling.append(asyncio.create_task(self._tell([person])))
        await asyncio.gather(*telling)

    async def _tell(self, people: Sequence[UUID]) -> None:
        happened = [
            SourceEvent(
                uuid4(), RideStarted(ride_id=uuid4(), rider_id=one, driver_id=one, round=1, started_at=now())
            )
            for one in people
        ]

        async def work(db: Db) -> None:
            db.after_commit(lambda: self._note(people))
            await self._notifier.notify(db, happened)

        await self._database.run(work)

    def _note(self, people: Sequence[UUID]) -> None:
        at = monotonic()
        self._unannounced += 1
        self._all_announced.clear()
        for one in people:
            self._times[one].append(at)

    async def _announce(self, payload: bytes) -> object:
        began = perf_counter()
        try:
            return await redis_pubsub.publish(self._redis, NOTIFICATIONS_CHANNEL, payload)
        finally:
            self._announcing_seconds += perf_counter() - began
            self._unannounced -= 1
            if not self._unannounced:
                self._all_announced.set()


async def tell(orders: Orders) -> Told:
    database = await Database.open(orders.database_url)
    # Nothing is to be given up because the machine is busy: that is what is measured.
    redis = RedisClient(orders.redis_url, limits=RedisLimits(answer_seconds=10))
    try:
        return await NewNotification(database, redis, orders).run()
    finally:
        await redis.close()
        await database.close()
