"""Matching in a town of its own, one step at a time: a test says when something is handled or due."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from catraca.domains.matching import Matcher, Rules, Terms
from catraca.domains.matching.search.handlers import matching_handlers
from catraca.domains.matching.search.jobs import matching_timers
from catraca.domains.matching.search.service import MATCHING_DUE, MATCHING_WAKE
from catraca.platform.bus import Message, QueueHandlers
from catraca.platform.database import Db, inbox, outbox
from catraca.platform.event import Event, encode, key_of
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient
from tests.domains.location.outages import stopped
from tests.domains.location.town import Town
from tests.domains.rides.desk import read_event
from tests.servers import until

# In steps of the town, a hundred metres each.
RULES = Rules(
    initial_radius_meters=1000,
    max_radius_meters=2000,
    radius_increment_meters=500,
    max_attempts_per_search=3,
)


@dataclass
class MatchingHarness:
    town: Town
    redis: RedisClient
    rules: Rules = RULES
    offer_ttl: timedelta = timedelta(seconds=20)
    matcher: Matcher = field(init=False)

    def __post_init__(self) -> None:
        self.use_rules(self.rules)

    def use_rules(self, rules: Rules) -> None:
        terms = Terms(
            rules=rules,
            offer_ttl=self.offer_ttl,
            offer_lease=self.offer_ttl + timedelta(seconds=5),
            fresh=timedelta(seconds=60),
        )
        self.matcher = Matcher(self.redis, terms)

    async def advance(self, ride_id: UUID) -> None:
        await self.town.parts.database.run(lambda db: self.matcher.advance_search(db, ride_id))

    async def request_ride(self) -> UUID:
        """A new ride whose search has begun."""
        ride_id = await self.town.rides.request()
        await self.advance(ride_id)
        return ride_id

    async def messages(self, about: UUID, *keys: str) -> list[Message]:
        """What was told of a ride, its offers or a driver, the oldest first; all of it, or of these kinds."""
        async with self.town.parts.database.connection() as db:
            rows = await db.fetch(
                "SELECT * FROM outbox WHERE (aggregate_id = $1 OR body->>'ride_id' = $1::text)"
                " AND (cardinality($2::text[]) = 0 OR routing_key = ANY ($2)) ORDER BY id",
                about,
                list(keys),
            )
        return [outbox.message_of(row) for row in rows]

    async def events(self, about: UUID, *keys: str) -> list[Any]:
        """The same, read."""
        return [read_event.decode(message.body) for message in await self.messages(about, *keys)]

    async def deliver(self, *messages: Message) -> None:
        """What matching's consumers do with each, which they do once, however often it comes."""
        for message in messages:
            for handlers in matching_handlers(self.matcher):
                if message.key in (handlers.keys or ()):
                    await self.town.parts.database.run(partial(_apply, handlers=handlers, message=message))

    async def deliver_all(self, about: UUID, *keys: str) -> None:
        """Deliver what was told of it so far, and what is told of it because of that, until all is."""
        count = -1
        while count != len(messages := await self.messages(about, *keys)):
            await self.deliver(*messages)
            count = len(messages)

    async def fire_timer(self, ride_id: UUID, *, woken: bool = False) -> None:
        """Whatever the timer does when it is due."""
        fires = matching_timers(self.matcher).by_kind[MATCHING_WAKE if woken else MATCHING_DUE]
        await self.town.parts.database.run(lambda db: fires(db, ride_id))

    async def row(self, ride_id: UUID) -> Any:
        async with self.town.parts.database.connection() as db:
            return await db.fetchrow("SELECT * FROM matchings WHERE ride_id = $1", ride_id)

    async def asked_drivers(self, ride_id: UUID) -> list[UUID]:
        """Who is being asked, in the order they were."""
        async with self.town.parts.database.connection() as db:
            rows = await db.fetch(
                "SELECT driver_id FROM ride_offers WHERE ride_id = $1 AND response IS NULL ORDER BY attempt",
                ride_id,
            )
        return [row["driver_id"] for row in rows]

    async def refuse(self, ride_id: UUID, *driver_ids: UUID) -> None:
        """They refuse one after another, each being asked, and it is heard of."""
        for driver_id in driver_ids:
            answer = await self.town.rides.reject(ride_id, driver_id)
            assert answer.status_code == 200, answer.text
            await self.deliver_all(ride_id, "matching.driver_rejected")

    async def accept(self, ride_id: UUID, driver_id: UUID) -> None:
        """The driver accepts; nobody has heard of it yet."""
        answer = await self.town.rides.accept(ride_id, driver_id)
        assert answer.status_code == 200, answer.text

    async def searches(self, ride_id: UUID) -> list[Any]:
        """Each look that was taken: its number, how far out, by which map, and what it saw."""
        async with self.town.parts.database.connection() as db:
            return list(
                await db.fetch("SELECT * FROM matching_searches WHERE ride_id = $1 ORDER BY id", ride_id)
            )

    async def timer_due_at(self, ride_id: UUID, kind: str = MATCHING_DUE) -> datetime | None:
        async with self.town.parts.database.connection() as db:
            return await db.fetchval(
                "SELECT due_at FROM timers WHERE kind = $1 AND subject_id = $2", kind, ride_id
            )

    async def pass_deadline(self, ride_id: UUID) -> None:
        """Let the ride's time have run out just now, with that of its offers."""
        async with self.town.parts.database.transaction() as db:
            await db.execute(
                "UPDATE ride_offers SET expires_at = clock_timestamp() WHERE ride_id = $1 AND held", ride_id
            )
            await db.execute("UPDATE rides SET deadline_at = clock_timestamp() WHERE id = $1", ride_id)

    async def lock_holder(self, driver_id: UUID) -> str | None:
        """Which ride the driver is locked for."""
        held = await self.town.redis.command("HGET", f"driver:{driver_id}:lock", "holder")
        return held.decode() if isinstance(held, bytes) else None

    @asynccontextmanager
    async def without_redis(self) -> AsyncIterator[None]:
        """Redis is away until the block ends, and comes back knowing nothing."""
        async with stopped(self.town):
            yield
        await until(self.redis.is_up)
        await self.town.keeper().fill_map()

    async def lock(self, driver_id: UUID, holder: UUID) -> None:
        """Have the driver locked for a ride, as Redis remembers it."""
        await self.town.redis.command("HSET", f"driver:{driver_id}:lock", "holder", str(holder), "fence", 1)


def message_of(event: Event) -> Message:
    """As if it had been told: for what the desk would not say."""
    return Message(id=new_id(), exchange=event.exchange, key=key_of(type(event)), body=encode(event))


async def _apply(db: Db, handlers: QueueHandlers, message: Message) -> None:
    if await inbox.insert_new(db, handlers.queue, [message.id]):
        await handlers.run(db, message)
