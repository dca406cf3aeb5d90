"""One test's exchange, queues and consumers on one of the buses, with unique names."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from catraca.platform.bus import (
    EventHandlers,
    Message,
    Queue,
    QueueHandlers,
    QueueWorker,
    Topology,
    Transport,
)
from catraca.platform.bus.handlers import EventReader
from catraca.platform.bus.message import Headers
from catraca.platform.bus.relay import Relay
from catraca.platform.database import Database, Db, outbox
from catraca.platform.event import Event
from catraca.platform.ids import new_id
from tests.servers import until

# The buses that must behave alike. Tests with RabbitMQ run in one worker, so that one broker is enough.
on_every_bus = pytest.mark.parametrize(
    ("stack", "carrier"),
    [
        pytest.param("embedded", "postgres", id="postgres-embedded"),
        pytest.param("servers", "postgres", id="postgres-servers"),
        pytest.param("servers", "rabbitmq", id="rabbitmq", marks=pytest.mark.xdist_group("rabbitmq")),
    ],
    indirect=True,
    scope="session",
)
KEY = "thing.happened"
SHORT_DELAYS_SECONDS = (0.05, 0.1, 0.2)
Handle = Callable[[Db, Message], Awaitable[None]]
Prepare = Callable[[Message], Awaitable[None]]
Write = Callable[[Db, Sequence[Message]], Awaitable[Mapping[int, Exception]]]
Connect = Callable[[Topology], Transport]


class World:
    """`queue` names queues, `open` declares them. Handlers insert a row per effect, which shows repeats."""

    def __init__(self, database: Database, connect: Connect) -> None:
        self.database = database
        self.tag = uuid4().hex[:8]
        self.exchange, self.dlx = f"things_{self.tag}", f"dlx_{self.tag}"
        self.dead = self.queue("dead", self.dlx, dead_letters_to=None, remembers=False)
        self._connect = connect
        self._buses: list[Transport] = []
        self.topology: Topology
        self.bus: Transport

    def queue(self, name: str, *binds: str, **options: Any) -> Queue:
        """A queue of this test. Its dead letters go to `dead`, unless `options` change that."""
        chosen = {"role": "tester", "does": "Is tested.", "dead_letters_to": self.dlx} | options
        return Queue(name=f"{name}_{self.tag}", binds=binds or (KEY,), **chosen)

    async def open(
        self,
        *queues: Queue,
        keys: Sequence[str] = (KEY,),
        exchanges: Mapping[str, tuple[str, ...]] | None = None,
        **options: Any,
    ) -> None:
        """Declare these queues and further exchanges; a second call adds queues to the same exchange."""
        self.topology = Topology(
            exchanges={self.exchange: tuple(keys), self.dlx: (), **(exchanges or {})},
            queues=(*queues, self.dead),
            **({"retry_delays_seconds": SHORT_DELAYS_SECONDS} | options),
        )
        self.bus = self.connect()
        await self.bus.declare()

    def connect(self) -> Transport:
        """A connection of another process to the same queues."""
        bus = self._connect(self.topology)
        self._buses.append(bus)
        return bus

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close()

    def message(
        self, key: str = KEY, body: bytes = b"{}", *, about: UUID | None = None, seq: int = 0
    ) -> Message:
        headers = Headers(aggregate_id=about, seq=seq)
        return Message(id=new_id(), exchange=self.exchange, key=key, body=body, headers=headers)

    async def publish(self, *messages: Message) -> None:
        assert await self.bus.publish(messages) == [None] * len(messages)

    @asynccontextmanager
    async def consuming(
        self, queue: Queue, handle: Handle | None = None, *, bus: Transport | None = None, **options: Any
    ) -> AsyncIterator[asyncio.Event]:
        """Run a consumer until the block ends or the event is set; `applied` returns its effects."""
        handlers = EventHandlers[()](queue.name)
        handlers.anything(self.noting(queue, handle))
        async with self.running(queue, handlers, bus=bus, **options) as stopping:
            yield stopping

    @asynccontextmanager
    async def running(
        self, queue: Queue, handlers: QueueHandlers[Any], *, bus: Transport | None = None, **options: Any
    ) -> AsyncIterator[asyncio.Event]:
        worker = QueueWorker(
            queue,
            handlers,
            topology=self.topology,
            transport=bus or self.bus,
            database=self.database,
            **options,
        )
        async with until_over(worker.run) as stopping:
            yield stopping

    @asynccontextmanager
    async def batching(
        self,
        queue: Queue,
        write: Write | None = None,
        *,
        prepare: Prepare | None = None,
        **options: Any,
    ) -> AsyncIterator[asyncio.Event]:
        """Run a consumer with one handler per batch, until the block ends or the event is set."""

        async def look_at(message: Message) -> Message:
            if prepare is not None:
                await prepare(message)
            return message

        async def note_and_write(db: Db, messages: Sequence[Message]) -> Mapping[int, Exception] | None:
            for message in messages:
                await note(db, queue.name, message)
            return await write(db, messages) if write is not None else None

        handlers = QueueHandlers[Message](
            queue=queue.name, keys=None, prepare=look_at, write=note_and_write, check=EventReader().check
        )
        async with self.running(queue, handlers, **options) as stopping:
            yield stopping

    def noting(self, queue: Queue, handle: Handle | None = None) -> Handle:
        async def note_and_handle(db: Db, message: Message) -> None:
            await note(db, queue.name, message)
            if handle is not None:
                await handle(db, message)

        return note_and_handle

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        async with until_over(Relay(self.database, self.bus).run):
            yield

    def event(self, about: UUID, number: int = 0, key: str = KEY) -> Event:
        """An event to record in the outbox."""
        return _event_type(self.exchange, key)(thing_id=about, number=number)

    async def record(self, *events: Event) -> None:
        async with self.database.transaction() as db:
            await outbox.record(db, *events)

    async def unsent(self) -> int:
        async with self.database.connection() as db:
            return (await outbox.backlog(db))[0]

    async def applied(self, queue: Queue) -> list[Message]:
        """The applied messages, in order and unchanged."""
        async with self.database.connection() as db:
            return await effects(db, queue.name)

    async def ids(self, queue: Queue) -> list[UUID]:
        return [message.id for message in await self.applied(queue)]

    async def until_applied(self, queue: Queue, count: int, *, seconds: float = 60) -> list[Message]:
        async def are_there() -> bool:
            return len(await self.applied(queue)) >= count

        await until(are_there, seconds=seconds)
        return await self.applied(queue)

    async def until_waiting(self, queue: Queue, count: int) -> None:
        """Wait until exactly this many messages are in the queue."""

        async def is_so() -> bool:
            return (await self.bus.depths())[queue.name] == count

        await until(is_so)

    async def buried(self, count: int) -> list[Message]:
        """Wait for this many dead letters and return them; fails if there are more."""
        async with self.consuming(self.dead):
            await self.until_applied(self.dead, count)
        await self.until_waiting(self.dead, 0)
        found = await self.applied(self.dead)
        assert len(found) == count
        return found


@asynccontextmanager
async def until_over(run: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[asyncio.Event]:
    """Run until the block ends or the event is set; fails the test if `run` ends before."""
    stopping = asyncio.Event()
    here = asyncio.current_task()
    assert here is not None
    running = asyncio.ensure_future(run(stopping))
    running.add_done_callback(lambda _: None if stopping.is_set() else here.cancel())
    try:
        yield stopping
    finally:
        stopping.set()
        async with asyncio.timeout(30):
            await running


def _event_type(exchange_name: str, key: str) -> Callable[..., Event]:
    class Happened(Event, frozen=True, kw_only=True, tag=key):
        exchange = exchange_name
        about = "thing_id"

        thing_id: UUID
        number: int

    return Happened


EFFECTS = """
    CREATE TABLE effects (
        place       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        queue       text NOT NULL,
        message_id  uuid NOT NULL,
        exchange    text NOT NULL,
        routing_key text NOT NULL,
        headers     json NOT NULL,
        body        bytea NOT NULL
    )
"""


async def note(db: Db, queue: str, message: Message) -> None:
    """Insert the effect of a message: it exists if and only if the handler committed."""
    await db.execute(
        "INSERT INTO effects (queue, message_id, exchange, routing_key, headers, body)"
        " VALUES ($1, $2, $3, $4, $5, $6)",
        queue,
        message.id,
        message.exchange,
        message.key,
        msgspec.json.encode(message.headers).decode(),
        message.body,
    )


async def effects(db: Db, queue: str) -> list[Message]:
    rows = await db.fetch("SELECT * FROM effects WHERE queue = $1 ORDER BY place", queue)
    return [
        Message(
            id=row["message_id"],
            exchange=row["exchange"],
            key=row["routing_key"],
            headers=msgspec.json.decode(row["headers"], type=Headers),
            body=row["body"],
        )
        for row in rows
    ]
