"""The hint in Redis only chooses the way; the database decides."""

import asyncio
from collections import Counter
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.redis_client import RedisClient
from tests.domains.rides.attempts import all_at_once, attempt_at, codes
from tests.domains.rides.desk import Desk
from tests.domains.rides.hint_desk import HintDesk, steered
from tests.servers import until


async def one_wins(desk: Desk, ride_id: UUID, drivers: list[UUID]) -> None:
    """Accept by all drivers at once: one wins, the others are refused, all are recorded."""
    answers = await desk.accept_all(ride_id, drivers)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: len(drivers) - 1}
    attempts = await desk.attempts(ride_id)
    assert Counter(one["status"] for one in attempts) == {"SUCCESS": 1, "FAILED": len(drivers) - 1}
    assert (await desk.event_keys(ride_id)).count("ride.accepted") == 1


async def test_hint_steers_later_attempts_aside(hint_desk: HintDesk) -> None:
    ride_id, (winner_id, loser_id) = await hint_desk.offered(2)
    assert (await hint_desk.accept(ride_id, winner_id)).status_code == 200
    await hint_desk.until_hinted(ride_id)
    assert await hint_desk.read_hint(ride_id) == str(winner_id)
    aside, back = steered("aside"), steered("aside_and_back")
    lost = await hint_desk.accept(ride_id, loser_id)
    assert (lost.status_code, lost.json()["code"]) == (409, "ride_already_accepted")
    assert (steered("aside") - aside, steered("aside_and_back") - back) == (1, 0)
    assert len(await hint_desk.attempts(ride_id)) == 2


async def test_attempt_steered_aside_can_get_every_outcome(hint_desk: HintDesk) -> None:
    """The hint does not decide the outcome."""
    ride_id, (winner_id, late_id) = await hint_desk.offered(2)
    await hint_desk.let_lapse(ride_id, late_id)
    await hint_desk.settle(ride_id)
    first = await hint_desk.accept(ride_id, winner_id, "k")
    await hint_desk.until_hinted(ride_id)
    assert (await hint_desk.accept(ride_id, winner_id, "k")).content == first.content
    assert (await hint_desk.accept(ride_id, winner_id, "other")).json()["accepted_by_you"] is True
    assert (await hint_desk.accept(ride_id, late_id)).status_code == 410
    assert (await hint_desk.accept(ride_id, await hint_desk.new_driver())).status_code == 403
    unknown = uuid4()
    await hint_desk.set_hint(unknown, winner_id)
    assert (await hint_desk.accept(unknown, late_id)).status_code == 404


async def test_one_driver_wins_without_redis(hint_desk: HintDesk) -> None:
    ride_id, drivers = await hint_desk.offered(10)
    await hint_desk.server.stop()
    await one_wins(hint_desk, ride_id, drivers)


async def test_one_driver_wins_with_redis_frozen(hint_desk: HintDesk) -> None:
    ride_id, drivers = await hint_desk.offered(10)
    hint_desk.server.freeze()
    await one_wins(hint_desk, ride_id, drivers)


@pytest.mark.parametrize("trouble", ["away", "frozen"])
async def test_accept_continues_when_redis_has_gone(hint_desk: HintDesk, trouble: str) -> None:
    """The process has not noticed yet that Redis is gone, before the claim and when it sets the hint."""
    ride_id, drivers = await hint_desk.offered(3)
    acceptance = Acceptance(hint_desk.database, RedisClient(hint_desk.server.url))
    if trouble == "away":
        await hint_desk.server.stop()
    else:
        hint_desk.server.freeze()
    outcomes = await all_at_once(acceptance, *(attempt_at(ride_id, driver) for driver in drivers))
    assert Counter(codes(outcomes)) == {"AcceptedRide": 1, "ride_already_accepted": 2}


async def test_losing_redis_during_a_burst_changes_nothing(hint_desk: HintDesk) -> None:
    ride_id, drivers = await hint_desk.offered(30)
    answers = asyncio.ensure_future(hint_desk.accept_all(ride_id, drivers))
    await hint_desk.server.stop()
    assert Counter(answer.status_code for answer in await answers) == {200: 1, 409: 29}
    assert len(await hint_desk.attempts(ride_id)) == 30


async def test_ride_stays_taken_after_redis_is_flushed(hint_desk: HintDesk) -> None:
    ride_id, (winner_id, loser_id) = await hint_desk.offered(2)
    await hint_desk.accept(ride_id, winner_id)
    await hint_desk.until_hinted(ride_id)
    await hint_desk.server.command("FLUSHALL")
    claims = steered("to_the_claim")
    assert (await hint_desk.accept(ride_id, loser_id)).status_code == 409
    assert steered("to_the_claim") - claims == 1


async def test_hint_on_an_open_ride_blocks_no_driver(hint_desk: HintDesk) -> None:
    ride_id, drivers = await hint_desk.offered(5)
    await hint_desk.set_hint(ride_id, uuid4())
    back = steered("aside_and_back")
    await one_wins(hint_desk, ride_id, drivers)
    assert steered("aside_and_back") - back >= 1


async def test_hint_with_the_wrong_driver_has_no_effect(hint_desk: HintDesk) -> None:
    ride_id, (winner_id, loser_id) = await hint_desk.offered(2)
    await hint_desk.set_hint(ride_id, loser_id)
    assert (await hint_desk.accept(ride_id, winner_id)).json()["driver_id"] == str(winner_id)
    assert (await hint_desk.accept(ride_id, loser_id)).status_code == 409


@pytest.mark.parametrize("value", ["", "nonsense"])
async def test_hint_with_an_invalid_value_has_no_effect(hint_desk: HintDesk, value: str) -> None:
    ride_id, (driver_id,) = await hint_desk.offered()
    await hint_desk.server.command("SET", f"ride:{ride_id}:accepted_by", value)
    assert (await hint_desk.accept(ride_id, driver_id)).status_code == 200


async def test_hint_of_another_redis_type_has_no_effect(hint_desk: HintDesk) -> None:
    ride_id, (driver_id,) = await hint_desk.offered()
    await hint_desk.server.command("LPUSH", f"ride:{ride_id}:accepted_by", "a", "list")
    assert (await hint_desk.accept(ride_id, driver_id)).status_code == 200


async def test_ride_given_up_is_accepted_despite_a_stale_hint(
    hint_desk: HintDesk,
) -> None:
    ride_id, (winner_id, loser_id) = await hint_desk.offered(2)
    await hint_desk.accept(ride_id, winner_id)
    await hint_desk.until_hinted(ride_id)
    await hint_desk.give_up(ride_id, winner_id)
    await hint_desk.set_hint(ride_id, winner_id)
    await hint_desk.offer(ride_id, loser_id)
    assert (await hint_desk.accept(ride_id, loser_id)).status_code == 200


async def test_hint_is_deleted_when_a_ride_is_given_up(hint_desk: HintDesk) -> None:
    ride_id, (winner_id, loser_id) = await hint_desk.offered(2)
    await hint_desk.accept(ride_id, winner_id)
    await hint_desk.until_hinted(ride_id)
    await hint_desk.give_up(ride_id, winner_id)

    async def is_deleted() -> bool:
        return await hint_desk.read_hint(ride_id) is None

    await until(is_deleted)
    await hint_desk.offer(ride_id, loser_id)
    claims = steered("to_the_claim")
    assert (await hint_desk.accept(ride_id, loser_id)).status_code == 200
    assert steered("to_the_claim") - claims == 1


async def test_repeated_attempt_sets_no_hint_on_a_reopened_ride(hint_desk: HintDesk) -> None:
    ride_id, (winner_id, other_id) = await hint_desk.offered(2)
    await hint_desk.accept(ride_id, winner_id)
    await hint_desk.until_hinted(ride_id)
    await hint_desk.give_up(ride_id, winner_id)
    await hint_desk.server.command("FLUSHALL")
    assert (await hint_desk.accept(ride_id, winner_id)).status_code == 200
    # Hints are set in order: a hint on the first ride would be set before this one.
    await hint_desk.offer(ride_id, other_id)
    other_ride, (driver_id,) = await hint_desk.offered()
    await hint_desk.accept(other_ride, driver_id)
    await hint_desk.until_hinted(other_ride)
    assert await hint_desk.read_hint(ride_id) is None


async def test_hints_work_again_when_redis_is_back(hint_desk: HintDesk) -> None:
    ride_id, (driver_id,) = await hint_desk.offered()
    hint_desk.server.freeze()
    assert (await hint_desk.accept(ride_id, driver_id)).status_code == 200
    hint_desk.server.thaw()
    await hint_desk.redis_is_back()
    ride_id, (driver_id,) = await hint_desk.offered()
    await hint_desk.accept(ride_id, driver_id)
    await hint_desk.until_hinted(ride_id)
