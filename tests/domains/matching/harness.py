"""Matching on real servers, one step at a time: the test decides when an event or timer is handled."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from catraca.domains.matching import Matcher, Rules, Terms
from catraca.domains.matching.search.handlers import HANDLERS
from catraca.domains.matching.search.jobs import matching_timers
from catraca.domains.matching.search.service import MATCHING_DUE, MATCHING_WAKE
from catraca.platform.bus import Message, QueueHandlers
from catraca.platform.database import Db, inbox, outbox
from catraca.platform.event import Event, encode, key_of
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient
from tests.domains.location.town import Town, redis_stopped
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
        """Request a ride and take the first step of its search."""
        ride_id = await self.town.rides.request()
        await self.advance(ride_id)
        return ride_id

    async def new_drivers(self, *steps: float) -> list[UUID]:
        """Return online drivers at these steps from the pickup."""
        return [await self.town.new_driver(steps=one) for one in steps]

    async def last_search(self, ride_id: UUID) -> Any:
        return (await self.town.rides.timeline(ride_id))["searches"][-1]

    async def verdicts(self, ride_id: UUID) -> dict[UUID, str]:
        """Return the last search's verdict on each driver it saw, nearest first."""
        search = await self.last_search(ride_id)
        verdicts = {UUID(one["driver_id"]): one["verdict"] for one in search["seen"]}
        assert search["verdicts"] == Counter(verdicts.values()), "the search lists every driver"
        return verdicts

    async def messages(self, about: UUID, *keys: str) -> list[Message]:
        """Return outbox messages of a ride, its offers or a driver, oldest first; all, or of these keys."""
        async with self.town.parts.database.connection() as db:
            rows = await db.fetch(
                "SELECT * FROM outbox WHERE (aggregate_id = $1 OR body->>'ride_id' = $1::text)"
                " AND (cardinality($2::text[]) = 0 OR routing_key = ANY ($2)) ORDER BY id",
                about,
                list(keys),
            )
        return [outbox.message_of(row) for row in rows]

    async def events(self, about: UUID, *keys: str) -> list[Any]:
        """Return the messages as decoded events."""
        return [read_event.decode(message.body) for message in await self.messages(about, *keys)]

    async def deliver(self, *messages: Message) -> None:
        """Handle messages as the consumers do: a repeated message is handled once."""
        for message in messages:
            for handlers in HANDLERS:
                if message.key in (handlers.keys or ()):
                    await self.town.parts.database.run(
                        partial(_apply, handlers=handlers.bind(self.matcher), message=message)
                    )

    async def deliver_all(self, about: UUID, *keys: str) -> None:
        """Deliver all messages about the aggregate, also those that the handling adds."""
        count = -1
        while count != len(messages := await self.messages(about, *keys)):
            await self.deliver(*messages)
            count = len(messages)

    async def fire_timer(self, ride_id: UUID, *, woken: bool = False) -> None:
        """Run the handler of the ride's timer."""
        fires = matching_timers(self.matcher).by_kind[MATCHING_WAKE if woken else MATCHING_DUE]
        await self.town.parts.database.run(lambda db: fires(db, ride_id))

    async def row(self, ride_id: UUID) -> Any:
        async with self.town.parts.database.connection() as db:
            return await db.fetchrow("SELECT * FROM matchings WHERE ride_id = $1", ride_id)

    async def asked_drivers(self, ride_id: UUID) -> list[UUID]:
        """Return the drivers with an open offer, in the order of the offers."""
        async with self.town.parts.database.connection() as db:
            rows = await db.fetch(
                "SELECT driver_id FROM ride_offers WHERE ride_id = $1 AND response IS NULL ORDER BY attempt",
                ride_id,
            )
        return [row["driver_id"] for row in rows]

    async def refuse(self, ride_id: UUID, *driver_ids: UUID) -> None:
        """Let drivers refuse one after another, and deliver each refusal."""
        for driver_id in driver_ids:
            answer = await self.town.rides.reject(ride_id, driver_id)
            assert answer.status_code == 200, answer.text
            await self.deliver_all(ride_id, "matching.driver_rejected")

    async def accept(self, ride_id: UUID, driver_id: UUID) -> None:
        """Let the driver accept; the event is not delivered yet."""
        answer = await self.town.rides.accept(ride_id, driver_id)
        assert answer.status_code == 200, answer.text

    async def searches(self, ride_id: UUID) -> list[Any]:
        """Return the search records of a ride."""
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
        """Set the deadline of the ride and the expiry of its offers to now."""
        async with self.town.parts.database.transaction() as db:
            await db.execute(
                "UPDATE ride_offers SET expires_at = clock_timestamp() WHERE ride_id = $1 AND held", ride_id
            )
            await db.execute("UPDATE rides SET deadline_at = clock_timestamp() WHERE id = $1", ride_id)

    async def lock_holder(self, driver_id: UUID) -> str | None:
        """Return the ride that holds the driver's lock."""
        held = await self.town.redis.command("HGET", f"driver:{driver_id}:lock", "holder")
        return held.decode() if isinstance(held, bytes) else None

    @asynccontextmanager
    async def without_redis(self) -> AsyncIterator[None]:
        """Stop Redis for the block; afterwards it is empty and filled again."""
        async with redis_stopped(self.town):
            yield
        await until(self.redis.is_up)
        await self.town.patrol().rebuild_index()

    async def lock(self, driver_id: UUID, holder: UUID) -> None:
        """Set a driver's lock in Redis."""
        await self.town.redis.command("HSET", f"driver:{driver_id}:lock", "holder", str(holder), "fence", 1)


def message_of(event: Event) -> Message:
    """Return a message for an event that the API would not publish."""
    return Message(id=new_id(), exchange=event.exchange, key=key_of(type(event)), body=encode(event))


async def _apply(db: Db, handlers: QueueHandlers[Any], message: Message) -> None:
    if await inbox.insert_new(db, handlers.queue, [message.id]):
        await handlers.write(db, [await handlers.prepare(message)])
