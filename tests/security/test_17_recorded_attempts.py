"""A driver cannot fill the table of attempts with new keys."""

from uuid import uuid4

import asyncpg
import httpx
import pytest

from catraca.platform.database import Database
from tests.domains.rides.desk import Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


async def test_attempts_without_an_offer_are_recorded_once(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    stranger_id = await desk.new_driver()
    for number in range(5):
        answer = await desk.accept(ride_id, stranger_id, f"key {number}".replace(" ", "-"))
        assert (answer.status_code, answer.json()["code"]) == (403, "offer_not_received")
    (attempt,) = await desk.attempts(ride_id)
    assert (attempt["driver_id"], attempt["idempotency_key"]) == (str(stranger_id), "key-0")


async def test_failures_with_an_offer_are_recorded_twenty_times(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    for _ in range(25):
        answer = await desk.accept(ride_id, loser_id, uuid4().hex)
        assert (answer.status_code, answer.json()["code"]) == (409, "ride_already_accepted")
    assert len(await desk.attempts(ride_id)) == 21


async def test_driver_wins_after_many_failures(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    for _ in range(21):
        await desk.accept(ride_id, loser_id, uuid4().hex)
    await desk.give_up(ride_id, winner_id)
    await desk.offer(ride_id, loser_id)
    first = await desk.accept(ride_id, loser_id, "k")
    assert first.status_code == 200
    assert (await desk.accept(ride_id, loser_id, "k")).content == first.content
    wins = [one for one in await desk.attempts(ride_id) if one["status"] == "SUCCESS"]
    assert [one["driver_id"] for one in wins] == [str(winner_id), str(loser_id)]


async def test_attempt_without_an_offer_leaves_room_for_the_offer(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    driver_id = await desk.new_driver()
    assert (await desk.accept(ride_id, driver_id, "k")).status_code == 403
    await desk.offer(ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id, "k")).status_code == 200


async def test_schema_limits_the_attempts(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    await desk.accept(ride_id, loser_id)
    stranger_id = await desk.new_driver()
    await desk.accept(ride_id, stranger_id)
    for driver_id, place, constraint in (
        (loser_id, 21, "twenty_failures_a_driver_and_ride"),
        (stranger_id, 2, "one_attempt_without_an_offer"),
    ):
        with pytest.raises(asyncpg.CheckViolationError) as refusal:
            await desk.sql(
                "UPDATE ride_accept_attempts SET place = $2 WHERE driver_id = $1", driver_id, place
            )
        assert refusal.value.constraint_name == constraint
