"""The rules of `catraca doctor --invariants` for rides: they hold, and each violation is found."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.invariants import INVARIANTS
from catraca.platform.database import Database
from catraca.platform.database.invariants import check_invariants
from catraca.platform.database.migrations import migrate
from catraca.roles.parts import Parts
from tests.domains.rides.desk import Desk
from tests.servers import Stack
from tests.support.http import served

COPY = (
    "INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
    " SELECT gen_random_uuid(), aggregate_id, 99, exchange, {key}, headers, body, created_at FROM outbox"
    " WHERE aggregate_id = '{ride}' AND routing_key = 'ride.accepted'"
)


@dataclass
class World:
    """A few rides in a database of their own."""

    desk: Desk
    accepted: UUID
    offered: UUID
    searched: UUID
    completed: UUID

    async def broken(self) -> list[str]:
        verdicts = await check_invariants(self.desk.database, INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]


@pytest.fixture
async def world(stack: Stack, parts: Parts) -> AsyncIterator[World]:
    url = await stack.new_database(f"rides-{uuid4()}")
    await migrate(url)
    database = await Database.open(url)
    async with served(replace(parts, database=database)) as api, api.client() as client:
        desk = Desk(client, database)
        accepted, _ = await desk.accepted()
        completed, driver_id = await desk.accepted()
        await desk.drive_to("COMPLETED", completed, driver_id)
        offered, searched = (await desk.offered(2))[0], (await desk.offered())[0]
        given_up, given_up_by = await desk.accepted()
        await desk.give_up(given_up, given_up_by)
        await desk.cancel((await desk.offered())[0], desk.operator)
        yield World(desk, accepted, offered, searched, completed)
    await database.close()


def breaches_of(world: World) -> dict[str, str]:
    """A statement that violates each rule, in an order in which each violates one more."""
    return {
        "every event has its step": COPY.format(ride=world.accepted, key="'ride.started'"),
        "one ride.accepted per round": COPY.format(ride=world.accepted, key="routing_key"),
        "one ride.matched per round": COPY.format(ride=world.completed, key="'ride.matched'").replace(
            "aggregate_id, 99", "aggregate_id, unnest(ARRAY[98, 99])"
        ),
        "every step has its event": f"DELETE FROM outbox WHERE aggregate_id = '{world.completed}'"
        " AND routing_key = 'ride.completed'",
        "prices of rides can be read": "ALTER TABLE rides DROP CONSTRAINT ride_prices_can_be_read",
        "one winner per round": "DROP INDEX one_winner_a_round",
        "one held offer per driver": "DROP INDEX one_held_offer_a_driver",
        "one ride at a time per driver": "DROP INDEX one_ride_at_a_time_a_driver",
        "offers are accepted in time": "ALTER TABLE ride_offers DROP CONSTRAINT offers_are_accepted_in_time",
        "acceptances commit in time": "ALTER TABLE ride_offers DISABLE TRIGGER acceptances_commit_in_time",
        "accepted drivers had the offer": "UPDATE ride_offers SET round = 7"
        f" WHERE ride_id = '{world.accepted}'",
        "only allowed moves": "ALTER TABLE ride_events DROP CONSTRAINT only_allowed_moves",
        "only operators cancel started rides": "ALTER TABLE ride_events"
        " DROP CONSTRAINT only_operators_cancel_started_rides",
        "charged distances fit the time": "ALTER TABLE rides DROP CONSTRAINT charged_distances_fit_the_time",
        "one flag per ride and kind": "ALTER TABLE ride_flags DROP CONSTRAINT one_flag_a_ride_and_kind",
        "only started rides have a track": "INSERT INTO ride_tracks (ride_id, lat, lng, position_at)"
        f" VALUES ('{world.completed}', 0, 0, now())",
        "steps follow each other": "ALTER TABLE ride_events DROP CONSTRAINT steps_follow_each_other",
        "one step per number": "ALTER TABLE ride_events DROP CONSTRAINT ride_events_pkey",
        "rides stand where their steps end": "ALTER TABLE rides"
        " DROP CONSTRAINT rides_stand_where_their_steps_end",
        "live offers belong to offered rides": "UPDATE rides SET status = 'SEARCHING'"
        f" WHERE id = '{world.offered}'",
        "offered rides have a live offer": "UPDATE ride_offers SET response = 'EXPIRED', held = false,"
        f" responded_at = now() WHERE ride_id = '{world.searched}'",
        "held drivers have a ride under way": "UPDATE ride_offers SET held = true"
        f" WHERE ride_id = '{world.completed}'",
        "no search after its deadline": "UPDATE rides SET deadline_at = now() - interval '21 s'"
        f" WHERE id = '{world.searched}'",
        "one attempt per driver, key and offer": "ALTER TABLE ride_accept_attempts"
        " DROP CONSTRAINT one_attempt_a_driver_key_and_offer",
        "failed attempts are limited": "ALTER TABLE ride_accept_attempts"
        " DROP CONSTRAINT twenty_failures_a_driver_and_ride",
        "attempts are numbered": "ALTER TABLE ride_accept_attempts DROP CONSTRAINT ride_accept_attempts_pkey",
        "one attempt without an offer": "ALTER TABLE ride_accept_attempts"
        " DROP CONSTRAINT one_attempt_without_an_offer",
        "every acceptance has its attempt": "DELETE FROM ride_accept_attempts"
        f" WHERE ride_id = '{world.completed}'",
    }


async def test_rules_hold_and_find_each_violation(world: World) -> None:
    assert await world.broken() == []
    breaches = breaches_of(world)
    assert set(breaches) == {rule.name for rule in INVARIANTS}
    seen: set[str] = set()
    for name, breach in breaches.items():
        await world.desk.sql(breach)
        assert set(await world.broken()) - seen == {name}
        seen.add(name)


# Constraints with the same name that allow more.
WEAKENED = {
    "one held offer per driver": "DROP INDEX one_held_offer_a_driver; CREATE UNIQUE INDEX"
    " one_held_offer_a_driver ON ride_offers (driver_id, ride_id) WHERE held",
    "one winner per round": "DROP INDEX one_winner_a_round;"
    " CREATE INDEX one_winner_a_round ON ride_offers (ride_id, round) WHERE response = 'ACCEPTED'",
    "acceptances commit in time": "CREATE OR REPLACE FUNCTION refuse_late_acceptances() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    # A surplus success is a violation too.
    "every acceptance has its attempt": "INSERT INTO ride_accept_attempts (id, ride_id, driver_id, offer_id,"
    " idempotency_key, status, ride_status, attempt_at, completed_at, actor_id, place)"
    " SELECT gen_random_uuid(), id, passenger_id, gen_random_uuid(), 'ghost', 'SUCCESS', status, now(),"
    " now(), passenger_id, 1 FROM rides LIMIT 1",
}


async def test_rule_weakened_under_its_own_name_is_found(world: World) -> None:
    seen: set[str] = set()
    for name, weakening in WEAKENED.items():
        async with world.desk.database.transaction() as db:
            await db.execute(weakening)
        assert set(await world.broken()) - seen == {name}
        seen.add(name)


async def test_rules_hold_after_events_are_sent_and_pruned(world: World) -> None:
    await world.desk.sql(
        "WITH sent AS (DELETE FROM outbox RETURNING *)"
        " INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
        " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at FROM sent"
    )
    assert await world.broken() == []
    await world.desk.sql("UPDATE ride_events SET at = at - interval '25 hours'")
    await world.desk.sql("DELETE FROM outbox_sent")
    assert await world.broken() == []
