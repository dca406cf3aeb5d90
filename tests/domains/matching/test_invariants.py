"""The rules of `catraca doctor --invariants` on searches hold, and each breach is found."""

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
class Searches:
    """A few searches in a database of their own."""

    harness: MatchingHarness
    # Rides: without a driver; refused by one driver and offered to another; accepted.
    waiting: UUID
    offered: UUID
    refused_by: UUID
    offered_to: UUID
    taken: UUID

    async def broken(self) -> list[str]:
        verdicts = await check_invariants(self.harness.town.parts.database, matching.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]

    async def do(self, statement: str) -> None:
        async with self.harness.town.parts.database.transaction() as db:
            await db.execute(statement)


@pytest.fixture
async def searches(stack: Stack, settings: Settings) -> AsyncIterator[Searches]:
    async with (
        private_redis(stack) as redis,
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        town = Town(parts, client, redis, Desk(client, parts.database))
        await town.patrol().rebuild_index()
        harness = MatchingHarness(town, parts.redis)
        waiting = await harness.request_ride()
        refused_by, offered_to = [await town.new_driver(steps=steps) for steps in (1, 2)]
        offered = await harness.request_ride()
        await harness.refuse(offered, refused_by)
        await town.go(refused_by, online=False)
        winner = await town.new_driver(steps=3)
        taken = await harness.request_ride()
        await harness.accept(taken, winner)
        await harness.deliver_all(taken, "matching.driver_accepted")
        assert await harness.asked_drivers(offered) == [offered_to]
        yield Searches(harness, waiting, offered, refused_by, offered_to, taken)


def breaches_of(searches: Searches) -> dict[str, str]:
    """Return SQL that breaks each rule, in an order in which each breaks exactly one more."""
    of_offered = f"WHERE ride_id = '{searches.offered}'"
    change = "ALTER TABLE matching_searches DISABLE TRIGGER searches_never_change; UPDATE matching_searches"
    return {
        "every match is published": "DELETE FROM outbox WHERE routing_key = 'ride.matched';"
        f" UPDATE rides SET accepted_at = {LONG_AGO}, updated_at = {LONG_AGO} WHERE id = '{searches.taken}'",
        "no search outlives its ride": "UPDATE matchings SET phase = 'searching', offers = 1,"
        f" wake_at = deadline_at FROM rides WHERE id = ride_id AND ride_id = '{searches.taken}';"
        " INSERT INTO timers (kind, subject_id, due_at, awake_at)"
        f" VALUES ('matching.due', '{searches.taken}', '2199-01-01', 'infinity')",
        "every open search has a timer": f"DELETE FROM timers WHERE subject_id = '{searches.waiting}'",
        "every open ride has a search": f"UPDATE rides SET updated_at = {LONG_AGO}"
        f" WHERE id = '{searches.waiting}';"
        f" UPDATE matchings SET phase = 'ended', wake_at = NULL, next_search_at = NULL"
        f" WHERE ride_id = '{searches.waiting}'",
        "one search per ride": "ALTER TABLE matchings DROP CONSTRAINT matchings_pkey",
        "only open searches have a wake time": "ALTER TABLE matchings"
        " DROP CONSTRAINT only_who_searches_waits",
        "a search without offers is repeated": "ALTER TABLE matching_searches"
        " DROP CONSTRAINT who_asked_nobody_looks_again",
        "searches can be read": "ALTER TABLE matching_searches DROP CONSTRAINT searches_can_be_read",
        "every counted offer is recorded": f"UPDATE matchings SET offers = offers + 1 {of_offered}",
        "search records never change": f"{change} SET at = at",
        "no driver is asked from outside the radius": f"{change} SET radius_meters = 50 {of_offered}"
        " AND verdicts ? 'refused_before'",
        "every recorded offer exists": "UPDATE ride_offers SET round = 7"
        f" WHERE driver_id = '{searches.offered_to}'",
        "no driver is asked again": "UPDATE ride_offers SET attempt = 5 - attempt"
        f" {of_offered}; INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, offered_at,"
        "   expires_at, response, responded_at, held)"
        " SELECT gen_random_uuid(), ride_id, driver_id, 1, 1, offered_at, expires_at, response, responded_at,"
        f"   false FROM ride_offers {of_offered} AND driver_id = '{searches.refused_by}'",
    }


async def test_each_rule_holds_and_its_breach_is_found(searches: Searches) -> None:
    assert await searches.broken() == []
    breaches = breaches_of(searches)
    assert set(breaches) == {rule.name for rule in matching.INVARIANTS}
    seen: set[str] = set()
    for name, breach in breaches.items():
        await searches.do(breach)
        assert set(await searches.broken()) - seen == {name}, name
        seen.add(name)


# The constraint exists, with another definition.
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


async def test_weakened_constraints_are_found(searches: Searches) -> None:
    seen: set[str] = set()
    for name, weakening in WEAKENED.items():
        await searches.do(weakening)
        assert set(await searches.broken()) - seen == {name}
        seen.add(name)


async def test_rules_hold_without_old_searches(searches: Searches) -> None:
    await searches.do(
        f"DELETE FROM matchings WHERE ride_id <> '{searches.taken}'; DELETE FROM matching_searches"
    )
    assert await searches.broken() == []


async def test_operators_may_ask_a_driver_again(searches: Searches) -> None:
    await searches.harness.town.rides.offer(searches.offered, searches.refused_by)
    assert await searches.broken() == []


async def test_offers_are_counted_per_search_and_round(searches: Searches) -> None:
    harness = searches.harness
    await harness.refuse(searches.offered, searches.offered_to)
    assert (await harness.row(searches.offered))["search"] > 1
    winner = UUID((await harness.town.rides.read(searches.taken))["driver_id"])
    await harness.town.rides.give_up(searches.taken, winner)
    await harness.advance(searches.taken)
    assert await harness.asked_drivers(searches.taken) == [searches.offered_to], (
        "the first search of another round"
    )
    assert await searches.broken() == []
