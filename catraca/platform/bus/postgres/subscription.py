"""One consumer of one queue in PostgreSQL."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from catraca.platform.bus.message import Delivery, each_once
from catraca.platform.bus.postgres import tables
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db, use_custom_plans
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within

# Messages of a dead consumer return after this; a live consumer renews its leases in time.
LEASE_SECONDS = 5.0
RENEW_SECONDS = 1.5
POLL_SECONDS = 0.5
# Claims of this many messages need a plan of their own (`use_custom_plans`). With old statistics PostgreSQL
# expects fewer messages than such a claim takes, and then reads and sorts the whole queue for each claim.
MANY_MESSAGES = 100


def wake_topic(queue: str) -> str:
    return f"queue:{queue}"


class PostgresSubscription:
    """Claims messages in advance, up to the queue's prefetch, and renews their leases."""

    def __init__(self, database: Database, topology: Topology, queue: Queue) -> None:
        self._database = database
        self._topology = topology
        self._queue = queue
        self._lease = uuid4()
        self._ready: deque[Delivery] = deque()
        self._in_hand: dict[int, Delivery] = {}
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()
        self._told_to_stop = asyncio.Event()
        self._look_for_due_at = 0.0
        self._fetching = asyncio.create_task(self._fetch())
        self._renewing = asyncio.create_task(self._renew())
        for task in (self._fetching, self._renewing):
            task.add_done_callback(lambda _: self._arrived.set())

    async def next(self, limit: int) -> list[Delivery]:
        while not self._ready and not self._stopping:
            for task in (self._fetching, self._renewing):
                if task.done():
                    task.result()  # raises the error: a consumer that receives nothing must not stay
            self._arrived.clear()
            await self._arrived.wait()
        if self._stopping:
            return []
        self._left.set()
        return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    async def admit(self, db: Db, deliveries: Sequence[Delivery]) -> list[Delivery]:
        if self._is_transient:
            return list(deliveries)
        name, tags, alone = self._queue.name, [one.tag for one in deliveries], self._queue.single_active
        if not self._queue.remembers:
            ours = await tables.remove_messages(db, name, tags, lease=self._lease, alone=alone)
            return [delivery for delivery in deliveries if delivery.tag in ours]
        fresh = await tables.remember_messages(db, name, tags, lease=self._lease, alone=alone)
        return each_once(deliveries, fresh)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        self._forget(deliveries)

    async def retry(self, delivery: Delivery, *, delay_seconds: float, reason: str) -> None:
        message = delivery.message.again(reason)
        await self._database.run(
            lambda db: tables.delay_message(db, delivery, message, lease=self._lease, seconds=delay_seconds)
        )
        self._forget([delivery])

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        message = delivery.message.with_headers(queue=self._queue.name, reason=reason)
        onward = [queue.name for queue in self._topology.route_dead_letter(self._queue, message.key)]
        if not onward:
            await self.give_back([delivery])
            return
        await self._database.run(
            lambda db: tables.move_message(db, delivery, message, onward, lease=self._lease)
        )
        self._forget([delivery])
        for name in onward:
            self._database.channel.publish(wake_topic(name))

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        tags = [delivery.tag for delivery in deliveries]
        self._forget(deliveries)
        if not tags or self._is_transient:  # it would expire before another consumer takes it
            return
        with suppress(Refusal):  # the leases expire
            await self._database.run(lambda db: tables.release(db, self._queue.name, tags, lease=self._lease))
            self._database.channel.publish(wake_topic(self._queue.name))

    def stop_taking(self) -> None:
        self._told_to_stop.set()
        self._arrived.set()
        self._left.set()

    async def close(self) -> None:
        self.stop_taking()
        self._renewing.cancel()
        await asyncio.gather(self._fetching, self._renewing, return_exceptions=True)
        await self.give_back(list(self._in_hand.values()))
        if self._queue.single_active:
            with suppress(Refusal):
                await self._database.run(lambda db: tables.step_down(db, self._queue.name, lease=self._lease))
                self._database.channel.publish(wake_topic(self._queue.name))

    @property
    def _stopping(self) -> bool:
        return self._told_to_stop.is_set()

    @property
    def _is_transient(self) -> bool:
        return self._queue.transient_seconds is not None

    def _forget(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._in_hand.pop(delivery.tag, None)
        self._left.set()

    async def _fetch(self) -> None:
        with self._database.channel.subscribe(wake_topic(self._queue.name)) as woken:
            while not self._stopping:
                room = self._queue.prefetch - len(self._in_hand)
                # While deliveries are ready, wait until many can be claimed at once.
                if room == 0 or (self._ready and room < self._queue.prefetch / 2):
                    self._left.clear()
                    await self._left.wait()
                    continue
                woken.clear()
                if taken := await self._claim(room):
                    self._ready.extend(taken)
                    self._arrived.set()
                else:
                    await within(POLL_SECONDS, woken, self._told_to_stop)
        waiting = list(self._ready)
        self._ready.clear()
        await self.give_back(waiting)

    async def _claim(self, limit: int) -> list[Delivery]:
        try:
            if self._queue.single_active or limit >= MANY_MESSAGES:
                claimed = await self._database.run(lambda db: self._claim_from(db, limit))
            else:
                async with self._database.connection() as db:
                    claimed = await self._claim_from(db, limit)
        except Refusal:
            return []
        # After a long outage an unsettled message can be claimed again, because its lease has expired.
        taken = [delivery for delivery in claimed if delivery.tag not in self._in_hand]
        self._in_hand.update((delivery.tag, delivery) for delivery in taken)
        return taken

    async def _claim_from(self, db: Db, limit: int) -> list[Delivery]:
        name = self._queue.name
        if self._is_transient:
            return await tables.take_transient(db, name, limit=limit)
        await self._return_due(db)
        if limit >= MANY_MESSAGES:
            await use_custom_plans(db)
        if not self._queue.single_active:
            claimed = await tables.claim_messages(
                db, name, lease=self._lease, lease_seconds=LEASE_SECONDS, limit=limit
            )
        elif await self._is_active(db):
            claimed = await tables.claim_in_order(
                db, name, self._in_hand, lease=self._lease, lease_seconds=LEASE_SECONDS, limit=limit
            )
        else:
            claimed = []
        for delivery, deliveries in claimed:
            if deliveries > self._topology.delivery_limit and self._queue.dead_letters_to is not None:
                delivery.unreadable = "delivery_limit"
        return [delivery for delivery, _ in claimed]

    async def _is_active(self, db: Db) -> bool:
        lease = await tables.become_active(
            db, self._queue.name, lease=self._lease, fresh=uuid4(), lease_seconds=LEASE_SECONDS
        )
        if lease is not None and lease != self._lease:
            # Under a new lease, start with the oldest message; earlier deliveries lapse.
            self._lease = lease
            self._ready.clear()
            for delivery in self._in_hand.values():
                delivery.lapsed = True
            self._forget(list(self._in_hand.values()))
        return lease is not None

    async def _return_due(self, db: Db) -> None:
        if monotonic_seconds() < self._look_for_due_at:
            return
        self._look_for_due_at = monotonic_seconds() + POLL_SECONDS / 2
        for queue in await tables.return_due(db):
            db.notify(wake_topic(queue))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if not self._in_hand or self._is_transient:
                continue
            with suppress(Refusal):
                async with self._database.connection() as db:
                    # A consumer with a full prefetch does not claim, so it renews its role here.
                    if self._queue.single_active and not await self._is_active(db):
                        continue
                    await tables.renew(
                        db, self._queue.name, self._in_hand, lease=self._lease, lease_seconds=LEASE_SECONDS
                    )
