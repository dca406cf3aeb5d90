"""A small world whose events can be counted: parcels that move, queues that get the events, a row per effect.

`applied` has no unique constraint, so that a second effect is a second row. `after_seq` of a row is the last
event of the parcel that was applied before it.
"""

import asyncio
import random
from collections.abc import Callable
from uuid import UUID

from catraca.domains.dead_letters.letters import handlers as dead_letter_handlers
from catraca.platform.bus import EventHandlers, Message, Queue, Topology
from catraca.platform.database import Db, outbox
from catraca.platform.event import Event, key_of
from catraca.platform.ids import new_id

PARCELS = 12
# The share of transactions that roll back after recording their events.
REGRETTED_SHARE = 0.05
DROPPED_SHARE = 0.1
# Handlers of the ordered queue take so long that a killed consumer is usually in the middle of one.
WORK_SECONDS = 0.003

TABLES = """
    CREATE TABLE changes (id uuid PRIMARY KEY, parcel_id uuid NOT NULL);
    CREATE TABLE applied (
        serial       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        consumer     text NOT NULL,
        event_id     uuid NOT NULL,
        aggregate_id uuid NOT NULL,
        seq          bigint NOT NULL,
        after_seq    bigint NOT NULL
    );
    CREATE INDEX applied_by_aggregate ON applied (consumer, aggregate_id, seq);
    -- Which consumer must apply which key.
    CREATE TABLE routes (consumer text NOT NULL, key text NOT NULL);
"""


class ParcelEvent(Event, frozen=True, kw_only=True):
    exchange = "parcels.events"
    about = "parcel_id"

    parcel_id: UUID
    change_id: UUID
    # How often clumsy consumers fail on the event before they succeed.
    drops: int = 0


class ParcelPosted(ParcelEvent, frozen=True, kw_only=True, tag="parcel.posted"):
    pass


class ParcelMoved(ParcelEvent, frozen=True, kw_only=True, tag="parcel.moved"):
    pass


class ParcelReturned(ParcelEvent, frozen=True, kw_only=True, tag="parcel.returned"):
    pass


KINDS: tuple[type[ParcelEvent], ...] = (ParcelPosted, ParcelMoved, ParcelReturned)
KEYS = tuple(key_of(kind) for kind in KINDS)

ORDERED = Queue(
    name="parcels_ordered",
    binds=("#",),
    role="consumers",
    does="Applies each parcel's events in order.",
    single_active=True,
    concurrency=1,
    dead_letters_to="parcels.dlx",
)
BATCHED = Queue(
    name="parcels_batched",
    binds=("parcel.*",),
    role="consumers",
    does="Applies many at a time, and drops some at first.",
    batch=50,
    prefetch=200,
    concurrency=2,
    dead_letters_to="parcels.dlx",
)
POSTED = Queue(
    name="parcels_posted",
    binds=("parcel.posted",),
    role="consumers",
    does="Applies one at a time.",
    dead_letters_to="parcels.dlx",
)
CLUMSY = Queue(
    name="parcels_clumsy",
    binds=("parcel.moved", "*.returned"),
    role="consumers",
    does="Applies one at a time, and drops some at first.",
    dead_letters_to="parcels.dlx",
)
DEAD = Queue(
    name="parcels_dead",
    binds=("parcels.dlx",),
    role="consumers",
    does="Stores dead letters; in this world there are none.",
    remembers=False,
    dead_letters_to=None,
)
WORLD = Topology(
    exchanges={ParcelEvent.exchange: KEYS, "parcels.dlx": ()},
    queues=(ORDERED, BATCHED, POSTED, CLUMSY, DEAD),
    retry_delays_seconds=(0.1, 0.2, 0.4),
)
ROUTES = [(queue.name, key) for key in KEYS for queue in WORLD.route(ParcelEvent.exchange, key)]


class Dropped(Exception):
    """A message fault, which counts; it succeeds after one or two retries."""


class Regretted(Exception):
    """Rolls back the writer's transaction."""


async def change_parcel(db: Db) -> int:
    """Make one to three changes of a parcel with their events in one transaction; returns their number."""
    parcel_id = UUID(int=random.randrange(1, PARCELS + 1))
    events = [
        random.choice(KINDS)(parcel_id=parcel_id, change_id=new_id(), drops=_drops())
        for _ in range(random.randint(1, 3))
    ]
    for event in events:
        await db.execute("INSERT INTO changes VALUES ($1, $2)", event.change_id, parcel_id)
    await outbox.record(db, *events)
    if random.random() < REGRETTED_SHARE:
        raise Regretted
    return len(events)


def _drops() -> int:
    return random.randint(1, 2) if random.random() < DROPPED_SHARE else 0


def world_handlers(passing: Callable[[], None]) -> dict[str, EventHandlers[()]]:
    """The handlers of every queue; `passing` is called for each effect before its commit."""
    dead = EventHandlers[()](DEAD.name)
    dead.anything(dead_letter_handlers.store_dead_letter)
    appliers = {
        queue.name: _appliers(queue.name, passing, clumsy=queue in (BATCHED, CLUMSY))
        for queue in (ORDERED, BATCHED, POSTED, CLUMSY)
    }
    return {**appliers, DEAD.name: dead}


def _appliers(consumer: str, passing: Callable[[], None], *, clumsy: bool) -> EventHandlers[()]:
    handles = EventHandlers[()](consumer)

    async def apply(db: Db, event: ParcelEvent, message: Message) -> None:
        await db.execute(
            "INSERT INTO applied (consumer, event_id, aggregate_id, seq, after_seq)"
            " SELECT $1, $2, $3, $4, coalesce(max(seq), 0) FROM applied"
            " WHERE consumer = $1 AND aggregate_id = $3",
            consumer,
            message.id,
            event.parcel_id,
            message.headers.seq,
        )
        passing()
        if consumer == ORDERED.name:
            await asyncio.sleep(WORK_SECONDS)
        if clumsy and message.headers.retries < event.drops:
            raise Dropped

    for kind in KINDS:
        handles(kind)(apply)
    return handles
