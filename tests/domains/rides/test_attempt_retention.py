"""Attempts to accept a ride are deleted some time after the ride's end."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from catraca.domains.rides.acceptance.service import prune_attempts
from catraca.domains.rides.invariants import INVARIANTS
from catraca.domains.rides.personal_data.service import erase_old_devices
from catraca.platform.database.invariants import Invariant
from catraca.roles.agents.retention_pruner import RetentionPruner
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.rides.desk import Desk

KEPT_FOR = timedelta(days=90)
OLDER, YOUNGER = timedelta(days=91), timedelta(days=89)
# Dates back the ride, its offers and its attempts.
AGE = (
    "UPDATE rides SET completed_at = completed_at - $2::interval WHERE id = $1",
    "UPDATE rides SET canceled_at = canceled_at - $2::interval WHERE id = $1",
    "UPDATE rides SET updated_at = updated_at - $2::interval WHERE id = $1",
    "UPDATE ride_offers SET responded_at = responded_at - $2::interval WHERE ride_id = $1",
    "UPDATE ride_accept_attempts SET attempt_at = attempt_at - $2::interval WHERE ride_id = $1",
)
Prepare = Callable[[Desk], Awaitable[UUID]]


async def devices_of(desk: Desk, ride_id: UUID) -> list[tuple[object, object]]:
    rows = await desk.sql(
        "SELECT user_agent, ip_address FROM ride_accept_attempts WHERE ride_id = $1", ride_id
    )
    return [(row["user_agent"], row["ip_address"]) for row in rows]


async def prune(desk: Desk, *, limit: int = 1000) -> int:
    return await desk.database.run(lambda db: prune_attempts(db, older_than=KEPT_FOR, limit=limit))


async def age(desk: Desk, ride_id: UUID, by: timedelta) -> None:
    for statement in AGE:
        await desk.sql(statement, ride_id, by)


async def completed(desk: Desk) -> UUID:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    return ride_id


async def canceled(desk: Desk) -> UUID:
    passenger = bearer("passenger")
    made = await desk.api.post("/v1/rides", json={"pickup_lat": 1.0, "pickup_lon": 1.0}, headers=passenger)
    ride_id = UUID(made.json()["ride_id"])
    await desk.accept(ride_id, await desk.new_driver())
    await desk.cancel(ride_id, passenger)
    return ride_id


async def expired(desk: Desk) -> UUID:
    ride_id = await desk.request()
    await desk.accept(ride_id, await desk.new_driver())
    await desk.end_time_of_search(ride_id)
    await desk.settle(ride_id)
    assert await desk.status(ride_id) == "EXPIRED"
    return ride_id


async def open_for_long(desk: Desk) -> UUID:
    ride_id, _ = await desk.offered()
    await desk.accept(ride_id, await desk.new_driver())
    return ride_id


async def driven_for_long(desk: Desk) -> UUID:
    ride_id, _ = await desk.accepted()
    return ride_id


@pytest.mark.parametrize("ended", [completed, canceled, expired])
async def test_attempts_are_deleted_after_the_retention(desk: Desk, ended: Prepare) -> None:
    young, old = await ended(desk), await ended(desk)
    await age(desk, young, YOUNGER)
    await age(desk, old, OLDER)
    assert await prune(desk) == 1
    assert await prune(desk) == 0
    assert (len(await desk.attempts(young)), len(await desk.attempts(old))) == (1, 0)


@pytest.mark.parametrize("unended", [open_for_long, driven_for_long])
async def test_attempts_of_unended_rides_are_kept(desk: Desk, unended: Prepare) -> None:
    ride_id = await unended(desk)
    await age(desk, ride_id, OLDER)
    assert await prune(desk) == 0
    assert len(await desk.attempts(ride_id)) == 1


async def test_attempts_are_kept_until_the_retention_after_the_end(desk: Desk) -> None:
    """The ride was accepted long ago, and ended recently."""
    ride_id = await completed(desk)
    await age(desk, ride_id, OLDER)
    await desk.sql("UPDATE rides SET completed_at = clock_timestamp() WHERE id = $1", ride_id)
    assert await prune(desk) == 0


async def test_attempts_are_deleted_in_bounded_batches(desk: Desk) -> None:
    rides = [await completed(desk) for _ in range(4)]
    for ride_id in rides:
        await age(desk, ride_id, OLDER)
    async with desk.database.transaction() as db:
        await db.execute("SELECT FROM ride_accept_attempts WHERE ride_id = $1 FOR UPDATE", rides[0])
        # Without the row that another transaction has locked.
        assert [await prune(desk, limit=2) for _ in range(3)] == [2, 1, 0]
    assert await prune(desk, limit=2) == 1


async def test_pruner_deletes_attempts_after_the_setting(desk: Desk, parts: Parts) -> None:
    young, old = await completed(desk), await completed(desk)
    await age(desk, young, timedelta(days=1))
    await age(desk, old, timedelta(days=3))
    settings = parts.settings.changed(attempt_retention=timedelta(days=2))
    await RetentionPruner(replace(parts, settings=settings)).prune()
    assert (len(await desk.attempts(young)), len(await desk.attempts(old))) == (1, 0)


async def test_repeat_after_the_deletion_changes_nothing(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    await age(desk, ride_id, OLDER)
    assert await prune(desk) == 1
    answer = await desk.accept(ride_id, driver_id)
    assert (answer.status_code, answer.json()["accepted_by_you"]) == (409, True)
    assert await desk.status(ride_id) == "COMPLETED"


async def test_deleted_attempts_break_no_invariant(desk: Desk) -> None:
    ride_id = await completed(desk)
    await age(desk, ride_id, OLDER)
    assert await prune(desk) == 1
    (rule,) = [rule for rule in INVARIANTS if rule.name == "every acceptance has its attempt"]
    assert isinstance(rule, Invariant)
    offers = await desk.sql("SELECT id FROM ride_offers WHERE ride_id = $1", ride_id)
    assert {row["id"] for row in offers} & {row["offer_id"] for row in await desk.sql(rule.query)} == set()


async def test_devices_of_rides_without_an_end_are_erased_too(desk: Desk) -> None:
    old, young = await driven_for_long(desk), await driven_for_long(desk)
    await age(desk, old, OLDER)
    await age(desk, young, YOUNGER)
    assert await prune(desk) == 0, "the rides have not ended"
    erased = await desk.database.run(lambda db: erase_old_devices(db, older_than=KEPT_FOR))
    assert erased >= 1
    assert set(await devices_of(desk, old)) == {(None, None)}
    assert None not in {address for _, address in await devices_of(desk, young)}
