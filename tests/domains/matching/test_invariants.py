"""What `catraca doctor --invariants` watches of searches: it holds, and each breach is seen."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from catraca.domains import matching
from catraca.platform.database.invariants import check_invariants
from catraca.settings import Settings
from tests.domains.location.town import Town
from tests.domains.matching.harness import MatchingHarness
from tests.domains.rides.desk import Desk
from tests.servers import Stack
from tests.support.http import served
from tests.support.redis_server import private_redis
from tests.support.roles import own_parts

LONG_AGO = "clock_timestamp() - interval '21 s'"


@dataclass
class World:
    """A few searches in a database of their own, for breaking."""

    harness: MatchingHarness
    # Nobody was there; refused by one, now asking another; taken; left without a row of its own.
    waiting: UUID
    asking: UUID
    refused_by: UUID
    asked: UUID
    taken: UUID

    async def broken(self) -> list[str]:
        verdicts = await check_invariants(self.harness.town.parts.database, matching.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]

    async def do(self, statement: str) -> None:
        async with self.harness.town.parts.database.transaction() as db:
            await db.execute(statement)


@pytest.fixture
async def world(stack: Stack, settings: Settings) -> AsyncIterator[World]:
    async with (
        private_redis(stack) as redis,
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        town = Town(parts, client, redis, Desk(client, parts.database))
        await town.keeper().fill_map()
        harness = MatchingHarness(town, parts.redis)
        waiting = await harness.request_ride()
        refused_by, asked = [await town.new_driver(steps=steps) for steps in (1, 2)]
        asking = await harness.request_ride()
        await harness.refuse(asking, refused_by)
        await town.go(refused_by, online=False)
        winner = await town.new_driver(steps=3)
        taken = await harness.request_ride()
        await harness.accept(taken, winner)
        await harness.deliver_all(taken, "matching.driver_accepted")
        assert await harness.asked_drivers(asking) == [asked]
        yield World(harness, waiting, asking, refused_by, asked, taken)


def breaches_of(world: World) -> dict[str, str]:
    """How each rule is broken, in an order in which each breach breaks one more."""
    of_asking = f"WHERE ride_id = '{world.asking}'"
    change = "ALTER TABLE matching_searches DISABLE TRIGGER searches_never_change; UPDATE matching_searches"
    return {
        "every match is published": "DELETE FROM outbox WHERE routing_key = 'ride.matched';"
        f" UPDATE rides SET accepted_at = {LONG_AGO}, updated_at = {LONG_AGO} WHERE id = '{world.taken}'",
        "no search outlives its ride": "UPDATE matchings SET phase = 'searching', offers = 1,"
        f" wake_at = deadline_at FROM rides WHERE id = ride_id AND ride_id = '{world.taken}';"
        " INSERT INTO timers (kind, subject_id, due_at, awake_at)"
        f" VALUES ('matching.due', '{world.taken}', 'infinity', 'infinity')",
        "every open search has a timer": f"DELETE FROM timers WHERE subject_id = '{world.waiting}'",
        "every open ride has a search": f"UPDATE rides SET updated_at = {LONG_AGO}"
        f" WHERE id = '{world.waiting}';"
        f" UPDATE matchings SET phase = 'ended', wake_at = NULL, next_search_at = NULL"
        f" WHERE ride_id = '{world.waiting}'",
        "one search per ride": "ALTER TABLE matchings DROP CONSTRAINT matchings_pkey",
        "only open searches have a wake time": "ALTER TABLE matchings"
        " DROP CONSTRAINT only_who_searches_waits",
        "a search without offers is repeated": "ALTER TABLE matching_searches"
        " DROP CONSTRAINT who_asked_nobody_looks_again",
        "every counted offer is recorded": f"UPDATE matchings SET offers = offers + 1 {of_asking}",
        "search records never change": f"{change} SET at = at",
        "no driver is asked from outside the radius": f"{change} SET radius_meters = 50 {of_asking}"
        " AND verdicts ? 'refused_before'",
        "every recorded offer exists": f"UPDATE ride_offers SET round = 7 WHERE driver_id = '{world.asked}'",
        "no driver is asked again": "UPDATE ride_offers SET attempt = 5 - attempt"
        f" {of_asking}; INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, offered_at,"
        "   expires_at, response, responded_at, held)"
        " SELECT gen_random_uuid(), ride_id, driver_id, 1, 1, offered_at, expires_at, response, responded_at,"
        f"   false FROM ride_offers {of_asking} AND driver_id = '{world.refused_by}'",
    }


async def test_each_rule_holds_and_its_breach_is_found(world: World) -> None:
    assert await world.broken() == []
    breaches = breaches_of(world)
    assert set(breaches) == {rule.name for rule in matching.INVARIANTS}
    seen: set[str] = set()
    for name, breach in breaches.items():
        await world.do(breach)
        assert set(await world.broken()) - seen == {name}, name
        seen.add(name)


# Still there, and no longer what they were made as.
WEAKENED = {
    "one search per ride": "ALTER TABLE matchings DROP CONSTRAINT matchings_pkey,"
    " ADD CONSTRAINT matchings_pkey PRIMARY KEY (ride_id, round)",
    "only open searches have a wake time": "ALTER TABLE matchings DROP CONSTRAINT only_who_searches_waits,"
    " ADD CONSTRAINT only_who_searches_waits CHECK (wake_at IS NOT NULL OR phase <> 'searching')",
    "a search without offers is repeated": "ALTER TABLE matching_searches"
    " DROP CONSTRAINT who_asked_nobody_looks_again,"
    " ADD CONSTRAINT who_asked_nobody_looks_again CHECK (outcome = 'asked' OR next_at > at OR true)",
    "search records never change": "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
}


async def test_weakened_constraints_are_found(world: World) -> None:
    seen: set[str] = set()
    for name, weakening in WEAKENED.items():
        await world.do(weakening)
        assert set(await world.broken()) - seen == {name}
        seen.add(name)


async def test_rules_hold_without_old_searches(world: World) -> None:
    await world.do(f"DELETE FROM matchings WHERE ride_id <> '{world.taken}'; DELETE FROM matching_searches")
    assert await world.broken() == []


async def test_operators_may_ask_a_driver_again(world: World) -> None:
    await world.harness.town.rides.offer(world.asking, world.refused_by)
    assert await world.broken() == []


async def test_offers_are_counted_per_search_and_round(world: World) -> None:
    harness = world.harness
    await harness.refuse(world.asking, world.asked)
    assert (await harness.row(world.asking))["search"] > 1
    winner = UUID((await harness.town.rides.read(world.taken))["driver_id"])
    await harness.town.rides.give_up(world.taken, winner)
    await harness.advance(world.taken)
    assert await harness.asked_drivers(world.taken) == [world.asked], "the first search of another round"
    assert await world.broken() == []
