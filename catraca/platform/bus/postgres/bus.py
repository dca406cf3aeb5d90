"""The bus without a broker: queues in PostgreSQL, for one machine and for as far as that carries."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from catraca.platform.bus.message import Message
from catraca.platform.bus.postgres import tables
from catraca.platform.bus.postgres.room import Room
from catraca.platform.bus.postgres.subscription import PostgresSubscription, wake_topic
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import BusAway, QueueFull, Unroutable
from catraca.platform.database import Database, Db, Row, announce
from catraca.platform.errors import Refusal

COUNTED_TO = 100_000


class PostgresBus:
    """A `Transport` on the business database itself."""

    def __init__(self, database: Database, topology: Topology) -> None:
        self._database = database
        self._topology = topology
        self._room = Room(topology)

    async def declare(self) -> None:
        """Nothing to do: a queue exists where its rows do."""

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        """All in one transaction; what has no room or no queue is refused, and does not harm the others."""
        copies: list[tuple[str, Message]] = []

        async def work(db: Db) -> list[Exception | None]:
            outcomes = await self._judge(
                db, [(message.headers.aggregate_id, message.exchange, message.key) for message in messages]
            )
            copies[:] = [
                (queue.name, message)
                for message, outcome in zip(messages, outcomes, strict=True)
                if outcome is None
                for queue in self._lasting(message.exchange, message.key)
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
        """From the outbox into their queues, in this transaction: here nothing can come between."""
        outcomes = await self._judge(
            db, [(event["aggregate_id"], event["exchange"], event["routing_key"]) for event in events]
        )
        taken = [event for event, outcome in zip(events, outcomes, strict=True) if outcome is None]
        routes = [
            (exchange, key, queue.name)
            for exchange, key in {(event["exchange"], event["routing_key"]) for event in taken}
            for queue in self._lasting(exchange, key)
        ]
        await tables.move_from_outbox(db, [event["id"] for event in taken], routes)
        for name in {queue for _, _, queue in routes}:
            announce(db, wake_topic(name))
        self._room.add(
            queue.name for event in taken for queue in self._lasting(event["exchange"], event["routing_key"])
        )
        return outcomes

    async def _judge(self, db: Db, letters: Sequence[tuple[UUID | None, str, str]]) -> list[Exception | None]:
        """Whether each (aggregate, exchange, key) has queues, and they have room."""
        outcomes: list[Exception | None] = []
        staged: Counter[str] = Counter()
        refused: dict[UUID, Exception] = {}
        for aggregate_id, exchange, key in letters:
            queues = self._lasting(exchange, key)
            # After a refused event, those behind it must wait too, or they would overtake it.
            outcome = refused.get(aggregate_id) if aggregate_id is not None else None
            if outcome is None:
                outcome = await self._refusal(db, key, queues, staged)
            if outcome is None:
                staged.update(queue.name for queue in queues)
            elif aggregate_id is not None:
                refused[aggregate_id] = outcome
            outcomes.append(outcome)
        return outcomes

    def _lasting(self, exchange: str, key: str) -> list[Queue]:
        """Where confirmed news goes: a queue that may drop it does not count."""
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
            self._database.wakeups.announce(wake_topic(name))

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
                self._database.wakeups.announce(wake_topic(name))

    async def subscribe(
        self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]
    ) -> PostgresSubscription:
        """`when_ready` is not needed here: while the database is away, nothing can be claimed from it."""
        return PostgresSubscription(self._database, self._topology, queue)

    async def depths(self) -> Mapping[str, int]:
        names = [queue.name for queue in self._topology.live]
        try:
            async with self._database.connection() as db:
                return await tables.count_messages(db, names, at_most=[COUNTED_TO] * len(names))
        except Refusal as refusal:
            raise BusAway(refusal.code) from refusal

    async def is_up(self) -> bool:
        return await self._database.is_up()

    async def close(self) -> None:
        """The database is closed by whoever opened it."""
