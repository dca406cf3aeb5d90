"""A `Transport` without a broker: queues are rows in the business database."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from catraca.platform.bus.message import Message
from catraca.platform.bus.postgres import tables
from catraca.platform.bus.postgres.capacity import Room
from catraca.platform.bus.postgres.subscription import PostgresSubscription, wake_topic
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import BusAway, QueueFull, Unroutable
from catraca.platform.database import Database, Db, Row
from catraca.platform.errors import Refusal

COUNTED_TO = 100_000


class PostgresBus:
    """A `Transport` on the business database itself."""

    def __init__(self, database: Database, topology: Topology) -> None:
        self._database = database
        self._topology = topology
        self._by_name = {queue.name: queue for queue in topology.queues if queue.transient_seconds is None}
        self._room = Room(topology)

    async def declare(self) -> None:
        """Nothing to do: a queue exists where its rows do."""

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        """One transaction for all. A message without a queue, or with a full one, is refused alone."""
        copies: list[tuple[str, Message]] = []

        async def work(db: Db) -> list[Exception | None]:
            ways = [self._way(message.exchange, message.key, message.queue) for message in messages]
            # A message for one queue only has no order with its aggregate.
            lanes = [message.headers.aggregate_id if message.queue is None else None for message in messages]
            outcomes = await self._judge(db, [message.key for message in messages], lanes, ways)
            copies[:] = [
                (queue.name, message)
                for message, way, outcome in zip(messages, ways, outcomes, strict=True)
                if outcome is None
                for queue in way
            ]
            await tables.insert_messages(db, copies)
            return outcomes

        try:
            outcomes = await self._database.run(work)
        except Refusal as refusal:
            return [BusAway(refusal.code)] * len(messages)
        self._tell(Counter(name for name, _ in copies))
        return outcomes

    async def take_over(self, db: Db, events: Sequence[Row]) -> list[Exception | None]:
        """Move events from the outbox to their queues, in this transaction."""
        ways = [self._way(event["exchange"], event["routing_key"], event["queue"]) for event in events]
        keys, lanes = [event["routing_key"] for event in events], [event["aggregate_id"] for event in events]
        outcomes = await self._judge(db, keys, lanes, ways)
        taken = [
            (event, way)
            for event, way, outcome in zip(events, ways, outcomes, strict=True)
            if outcome is None
        ]
        routes = {
            (event["exchange"], event["routing_key"], queue.name)
            for event, way in taken
            if event["queue"] is None
            for queue in way
        }
        await tables.move_from_outbox(db, [event["id"] for event, _ in taken], list(routes))
        added = Counter(queue.name for _, way in taken for queue in way)
        for name in added:
            db.notify(wake_topic(name))
        self._room.add(added.elements())
        return outcomes

    async def _judge(
        self, db: Db, keys: Sequence[str], lanes: Sequence[UUID | None], ways: Sequence[Sequence[Queue]]
    ) -> list[Exception | None]:
        """The error of each message: no queue, or a full one."""
        outcomes: list[Exception | None] = []
        staged: Counter[str] = Counter()
        refused: dict[UUID, Exception] = {}
        for key, aggregate_id, queues in zip(keys, lanes, ways, strict=True):
            # Events after a refused one of the same aggregate must wait too.
            outcome = refused.get(aggregate_id) if aggregate_id is not None else None
            if outcome is None:
                outcome = await self._refusal(db, key, queues, staged)
            if outcome is None:
                staged.update(queue.name for queue in queues)
            elif aggregate_id is not None:
                refused[aggregate_id] = outcome
            outcomes.append(outcome)
        return outcomes

    def _way(self, exchange: str, key: str, only: str | None) -> list[Queue]:
        """The durable queues of a message; transient queues do not count."""
        if only is not None:
            return [self._by_name[only]] if only in self._by_name else []
        return [queue for queue in self._topology.route(exchange, key) if queue.transient_seconds is None]

    async def _refusal(
        self, db: Db, key: str, queues: Sequence[Queue], staged: Counter[str]
    ) -> Exception | None:
        if not queues:
            return Unroutable(key)
        for queue in queues:
            if not await self._room.is_there(db, queue, staged=staged[queue.name]):
                return QueueFull(queue.name)
        return None

    def _tell(self, added: Counter[str]) -> None:
        self._room.add(added.elements())
        for name in added:
            self._database.channel.publish(wake_topic(name))

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        copies = [
            (queue, message)
            for message in messages
            for queue in self._topology.route(message.exchange, message.key)
            if queue.transient_seconds is not None
        ]
        if not copies:
            return
        named = [(queue.name, message) for queue, message in copies]
        seconds = [queue.transient_seconds or 0 for queue, _ in copies]
        with suppress(Refusal):
            async with self._database.connection() as db:
                await tables.insert_transient(db, named, seconds=seconds)
            for name in {name for name, _ in named}:
                self._database.channel.publish(wake_topic(name))

    async def subscribe(
        self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]
    ) -> PostgresSubscription:
        """`when_ready` is not needed: nothing can be claimed while the database is unavailable."""
        return PostgresSubscription(self._database, self._topology, queue)

    async def depths(self) -> Mapping[str, int]:
        names = [queue.name for queue in self._topology.queues]
        try:
            async with self._database.connection() as db:
                return await tables.count_messages(db, names, at_most=[COUNTED_TO] * len(names))
        except Refusal as refusal:
            raise BusAway(refusal.code) from refusal

    async def retrying(self) -> Mapping[str, int]:
        names = [queue.name for queue in self._topology.queues]
        try:
            async with self._database.connection() as db:
                return await tables.count_delayed(db, names, at_most=COUNTED_TO)
        except Refusal as refusal:
            raise BusAway(refusal.code) from refusal

    async def is_up(self) -> bool:
        return await self._database.is_up()

    async def close(self) -> None:
        """Nothing to do: the caller closes the database."""
