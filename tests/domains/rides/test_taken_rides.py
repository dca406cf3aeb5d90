"""What a process remembers of taken rides only chooses the way; the database decides. Redis is not needed."""

import asyncio
from collections import Counter
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.acceptance import service
from catraca.domains.rides.acceptance.service import STEERED, Acceptance
from catraca.platform.database import Database
from tests.domains.rides.attempts import all_at_once, attempt_at, codes
from tests.domains.rides.desk import Desk
from tests.domains.rides.redis_desk import RedisDesk


def steered(way: str) -> float:
    """The number of attempts that went this way so far."""
    return STEERED.labels(way)._value.get()


async def one_wins(desk: Desk, ride_id: UUID, drivers: list[UUID]) -> None:
    """Accept by all drivers at once: one wins, the others are refused, all are recorded."""
    answers = await desk.accept_all(ride_id, drivers)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: len(drivers) - 1}
    attempts = await desk.attempts(ride_id)
    assert Counter(one["status"] for one in attempts) == {"SUCCESS": 1, "FAILED": len(drivers) - 1}
    assert (await desk.event_keys(ride_id)).count("ride.accepted") == 1


async def test_later_attempts_at_a_taken_ride_are_steered_aside(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    assert (await desk.accept(ride_id, winner_id)).status_code == 200
    aside, back = steered("aside"), steered("aside_and_back")
    lost = await desk.accept(ride_id, loser_id)
    assert (lost.status_code, lost.json()["code"]) == (409, "ride_already_accepted")
    assert (steered("aside") - aside, steered("aside_and_back") - back) == (1, 0)
    assert len(await desk.attempts(ride_id)) == 2


async def test_losing_process_remembers_the_taken_ride(desk: Desk, database: Database) -> None:
    ride_id, drivers = await desk.offered(3)
    assert (await desk.accept(ride_id, drivers[0])).status_code == 200
    elsewhere, aside = Acceptance(database), steered("aside")
    for driver_id in drivers[1:]:
        outcomes = await all_at_once(elsewhere, attempt_at(ride_id, driver_id))
        assert codes(outcomes) == ["ride_already_accepted"]
    assert steered("aside") - aside == 1


async def test_attempt_steered_aside_can_get_every_outcome(desk: Desk) -> None:
    ride_id, (winner_id, late_id) = await desk.offered(2)
    await desk.let_lapse(ride_id, late_id)
    await desk.settle(ride_id)
    first = await desk.accept(ride_id, winner_id, "k")
    aside = steered("aside")
    assert (await desk.accept(ride_id, winner_id, "k")).content == first.content
    assert (await desk.accept(ride_id, winner_id, "other")).json()["accepted_by_you"] is True
    assert (await desk.accept(ride_id, late_id)).status_code == 410
    assert (await desk.accept(ride_id, await desk.new_driver())).status_code == 403
    assert steered("aside") - aside == 4


async def test_reopened_ride_is_accepted_though_it_seems_taken(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    await desk.give_up(ride_id, winner_id)
    await desk.offer(ride_id, loser_id)
    back = steered("aside_and_back")
    assert (await desk.accept(ride_id, loser_id)).status_code == 200
    assert steered("aside_and_back") - back == 1


async def test_reopened_ride_that_seems_taken_has_one_winner(desk: Desk) -> None:
    ride_id, (winner_id,) = await desk.offered()
    await desk.accept(ride_id, winner_id)
    await desk.give_up(ride_id, winner_id)
    drivers = [await desk.new_driver() for _ in range(5)]
    await desk.offer(ride_id, *drivers)
    answers = await desk.accept_all(ride_id, drivers)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 4}


async def test_repeated_attempt_does_not_mark_a_reopened_ride(desk: Desk, database: Database) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id, "k")
    await desk.give_up(ride_id, winner_id)
    elsewhere, claims = Acceptance(database), steered("to_the_claim")
    repeat = attempt_at(ride_id, winner_id, "k")
    assert codes(await all_at_once(elsewhere, repeat)) == ["AcceptedRide"]
    await desk.offer(ride_id, loser_id)
    assert codes(await all_at_once(elsewhere, attempt_at(ride_id, loser_id))) == ["AcceptedRide"]
    assert steered("to_the_claim") - claims == 2


async def test_unknown_ride_that_seems_taken_is_not_found(database: Database) -> None:
    acceptance, ride_id = Acceptance(database), uuid4()
    acceptance._taken[service.RideId(ride_id)] = None
    assert codes(await all_at_once(acceptance, attempt_at(ride_id, uuid4()))) == ["ride_not_found"]


async def test_memory_of_taken_rides_is_bounded(
    desk: Desk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TAKEN_RIDES_REMEMBERED", 2)
    acceptance = Acceptance(database)
    rides = [await desk.offered() for _ in range(3)]
    for ride_id, (driver_id,) in rides:
        await acceptance.accept_ride(attempt_at(ride_id, driver_id))
    assert list(acceptance._taken) == [ride_id for ride_id, _ in rides[1:]]


async def test_one_driver_wins_without_redis(redis_desk: RedisDesk) -> None:
    ride_id, drivers = await redis_desk.offered(10)
    await redis_desk.server.stop()
    await one_wins(redis_desk, ride_id, drivers)


async def test_one_driver_wins_with_redis_frozen(redis_desk: RedisDesk) -> None:
    ride_id, drivers = await redis_desk.offered(10)
    redis_desk.server.freeze()
    await one_wins(redis_desk, ride_id, drivers)


async def test_losing_redis_during_a_burst_changes_nothing(redis_desk: RedisDesk) -> None:
    ride_id, drivers = await redis_desk.offered(30)
    answers = asyncio.ensure_future(redis_desk.accept_all(ride_id, drivers))
    await redis_desk.server.stop()
    assert Counter(answer.status_code for answer in await answers) == {200: 1, 409: 29}
    assert len(await redis_desk.attempts(ride_id)) == 30
