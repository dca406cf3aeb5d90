"""Event, queue and transport of the benchmark."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import time
from uuid import UUID, uuid4

from catraca.platform.bus import EventHandlers, Message, Queue, Topology, Transport
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import PREFER_INDEXES, Database, Db, outbox
from catraca.platform.event import Event

AGGREGATES = 1000
RECORDED_AT_ONCE = 500
LIMIT_SECONDS = 120


class Measured(Event, frozen=True, kw_only=True, tag="bench.measured"):
    """About 300 bytes with its headers, like the events of a ride."""

    exchange = "bench.events"
    about = "subject_id"

    subject_id: UUID
    committed_at: float
    note: str = "x" * 120


@dataclass(slots=True)
class EventFixture:
    database: Database
    transport: Transport
    topology: Topology
    queue: Queue


@asynccontextmanager
async def open_fixture(
    database_url: str, amqp_url: str | None, *, batch: int
) -> AsyncGenerator[EventFixture]:
    """Open a separate queue, handled `batch` messages at a time, with a prefetch of four batches."""
    queue = Queue(
        name=f"bench_{uuid4().hex[:12]}",
        binds=("bench.*",),
        role="bench",
        does="Is measured.",
        batch=batch,
        prefetch=max(16, 4 * batch),
        dead_letters_to=None,
    )
    topology = Topology(exchanges={"bench.events": ("bench.measured",)}, queues=(queue,))
    database = await Database.open(database_url, planning=PREFER_INDEXES)
    transport = _transport(database, amqp_url, topology)
    try:
        await transport.declare()
        yield EventFixture(database, transport, topology, queue)
    finally:
        await transport.close()
        await database.close()


def _transport(database: Database, amqp_url: str | None, topology: Topology) -> Transport:
    if amqp_url is None:
        return PostgresBus(database, topology)
    from catraca.platform.bus.rabbitmq import RabbitMqBus

    return RabbitMqBus(amqp_url, topology)


async def record_events(database: Database, count: int) -> None:
    """Commit this many events to the outbox."""
    subjects = [uuid4() for _ in range(AGGREGATES)]
    for start in range(0, count, RECORDED_AT_ONCE):
        events = [
            Measured(subject_id=subjects[number % AGGREGATES], committed_at=time())
            for number in range(start, min(start + RECORDED_AT_ONCE, count))
        ]
        await database.run(lambda db, events=events: outbox.record(db, *events))


async def keep_sent(database: Database, count: int) -> None:
    """Insert this many rows of sent events."""
    async with database.connection() as db:
        await db.execute("SET statement_timeout = 0")
        await db.execute(
            "INSERT INTO outbox_sent"
            "   (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
            " SELECT gen_random_uuid(), gen_random_uuid(), 1, 'bench.events', 'bench.measured', '{}',"
            "   json_build_object('note', repeat('x', 200)), clock_timestamp() FROM generate_series(1, $1)",
            count,
            timeout=LIMIT_SECONDS,
        )
        await db.execute("VACUUM ANALYZE outbox_sent", timeout=LIMIT_SECONDS)
        await db.execute("CHECKPOINT", timeout=LIMIT_SECONDS)


def counting(queue: Queue, handled: Callable[[Measured], None]):
    """Return handlers that only count events."""
    handles = EventHandlers[()](queue.name)

    @handles(Measured)
    async def count(_db: Db, event: Measured, _message: Message) -> None:
        handled(event)

    return handles
