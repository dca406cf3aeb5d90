"""The gate in Redis only steers: whatever it says, or does not, the database decides."""

import asyncio
from collections import Counter
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.redis_client import RedisClient
from tests.domains.rides.at_once import all_at_once, attempt_at, codes
from tests.domains.rides.desk import Desk
from tests.domains.rides.gated import GatedDesk, steered
from tests.servers import until


async def one_wins(desk: Desk, ride_id: UUID, drivers: list[UUID]) -> None:
    """All accept at once: one has the ride, the others hear so, all is on record."""
    answers = await desk.accept_all(ride_id, drivers)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: len(drivers) - 1}
    attempts = await desk.attempts(ride_id)
    assert Counter(one["status"] for one in attempts) == {"SUCCESS": 1, "FAILED": len(drivers) - 1}
    assert (await desk.told(ride_id)).count("ride.accepted") == 1


async def test_the_gate_learns_who_won_and_steers_the_next_aside(gated: GatedDesk) -> None:
    ride_id, (winner_id, loser_id) = await gated.offered(2)
    assert (await gated.accept(ride_id, winner_id)).status_code == 200
    await gated.gate_knows(ride_id)
    assert await gated.gate_says(ride_id) == str(winner_id)
    aside, back = steered("aside"), steered("aside_and_back")
    lost = await gated.accept(ride_id, loser_id)
    assert (lost.status_code, lost.json()["code"]) == (409, "ride_already_accepted")
    assert (steered("aside") - aside, steered("aside_and_back") - back) == (1, 0)
    assert len(await gated.attempts(ride_id)) == 2


async def test_what_is_steered_aside_still_gets_every_verdict(gated: GatedDesk) -> None:
    """The gate's word for "taken" is not the answer."""
    ride_id, (winner_id, late_id) = await gated.offered(2)
    await gated.let_lapse(ride_id, late_id)
    await gated.settle(ride_id)
    first = await gated.accept(ride_id, winner_id, "k")
    await gated.gate_knows(ride_id)
    assert (await gated.accept(ride_id, winner_id, "k")).content == first.content
    assert (await gated.accept(ride_id, winner_id, "other")).json()["accepted_by_you"] is True
    assert (await gated.accept(ride_id, late_id)).status_code == 410
    assert (await gated.accept(ride_id, await gated.new_driver())).status_code == 403
    unknown = uuid4()
    await gated.make_gate_say(unknown, winner_id)
    assert (await gated.accept(unknown, late_id)).status_code == 404


async def test_with_redis_away_one_wins(gated: GatedDesk) -> None:
    ride_id, drivers = await gated.offered(10)
    await gated.server.stop()
    await one_wins(gated, ride_id, drivers)


async def test_with_redis_frozen_one_wins(gated: GatedDesk) -> None:
    ride_id, drivers = await gated.offered(10)
    gated.server.freeze()
    await one_wins(gated, ride_id, drivers)


@pytest.mark.parametrize("trouble", ["away", "frozen"])
async def test_the_accept_that_finds_redis_gone_goes_on_without_it(gated: GatedDesk, trouble: str) -> None:
    """Nobody in its process had noticed yet: neither before the claim nor when the gate is to be told."""
    ride_id, drivers = await gated.offered(3)
    accepting = Acceptance(gated.database, RedisClient(gated.server.url))
    if trouble == "away":
        await gated.server.stop()
    else:
        gated.server.freeze()
    outcomes = await all_at_once(accepting, *(attempt_at(ride_id, driver) for driver in drivers))
    assert Counter(codes(outcomes)) == {"AcceptedRide": 1, "ride_already_accepted": 2}


async def test_redis_lost_in_the_middle_changes_nothing(gated: GatedDesk) -> None:
    ride_id, drivers = await gated.offered(30)
    answers = asyncio.ensure_future(gated.accept_all(ride_id, drivers))
    await gated.server.stop()
    assert Counter(answer.status_code for answer in await answers) == {200: 1, 409: 29}
    assert len(await gated.attempts(ride_id)) == 30


async def test_a_flushed_gate_forgets_and_the_ride_stays_taken(gated: GatedDesk) -> None:
    ride_id, (winner_id, loser_id) = await gated.offered(2)
    await gated.accept(ride_id, winner_id)
    await gated.gate_knows(ride_id)
    await gated.server.command("FLUSHALL")
    claims = steered("to_the_claim")
    assert (await gated.accept(ride_id, loser_id)).status_code == 409
    assert steered("to_the_claim") - claims == 1


async def test_a_gate_that_says_taken_of_an_open_ride_keeps_nobody_out(gated: GatedDesk) -> None:
    ride_id, drivers = await gated.offered(5)
    await gated.make_gate_say(ride_id, uuid4())
    back = steered("aside_and_back")
    await one_wins(gated, ride_id, drivers)
    assert steered("aside_and_back") - back >= 1


async def test_a_gate_that_names_the_wrong_driver_is_not_believed(gated: GatedDesk) -> None:
    ride_id, (winner_id, loser_id) = await gated.offered(2)
    await gated.make_gate_say(ride_id, loser_id)
    assert (await gated.accept(ride_id, winner_id)).json()["driver_id"] == str(winner_id)
    assert (await gated.accept(ride_id, loser_id)).status_code == 409


@pytest.mark.parametrize("value", ["", "nonsense"])
async def test_a_gate_with_nonsense_in_it_does_no_harm(gated: GatedDesk, value: str) -> None:
    ride_id, (driver_id,) = await gated.offered()
    await gated.server.command("SET", f"ride:{ride_id}:accepted_by", value)
    assert (await gated.accept(ride_id, driver_id)).status_code == 200


async def test_a_key_of_another_kind_at_the_gates_place_does_no_harm(gated: GatedDesk) -> None:
    ride_id, (driver_id,) = await gated.offered()
    await gated.server.command("LPUSH", f"ride:{ride_id}:accepted_by", "a", "list")
    assert (await gated.accept(ride_id, driver_id)).status_code == 200


async def test_a_ride_given_up_is_accepted_though_the_gate_remembers_its_first_driver(
    gated: GatedDesk,
) -> None:
    ride_id, (winner_id, loser_id) = await gated.offered(2)
    await gated.accept(ride_id, winner_id)
    await gated.gate_knows(ride_id)
    await gated.give_up(ride_id, winner_id)
    await gated.make_gate_say(ride_id, winner_id)
    await gated.offer(ride_id, loser_id)
    assert (await gated.accept(ride_id, loser_id)).status_code == 200


async def test_a_ride_given_up_opens_its_gate(gated: GatedDesk) -> None:
    ride_id, (winner_id, loser_id) = await gated.offered(2)
    await gated.accept(ride_id, winner_id)
    await gated.gate_knows(ride_id)
    await gated.give_up(ride_id, winner_id)

    async def says_nothing() -> bool:
        return await gated.gate_says(ride_id) is None

    await until(says_nothing)
    await gated.offer(ride_id, loser_id)
    claims = steered("to_the_claim")
    assert (await gated.accept(ride_id, loser_id)).status_code == 200
    assert steered("to_the_claim") - claims == 1


async def test_a_repeat_does_not_shut_the_gate_of_a_ride_that_is_open_again(gated: GatedDesk) -> None:
    ride_id, (winner_id, other_id) = await gated.offered(2)
    await gated.accept(ride_id, winner_id)
    await gated.gate_knows(ride_id)
    await gated.give_up(ride_id, winner_id)
    await gated.server.command("FLUSHALL")
    assert (await gated.accept(ride_id, winner_id)).status_code == 200
    # Whatever it had to say of the first ride it would have said by the time this one's hint is there.
    await gated.offer(ride_id, other_id)
    other_ride, (driver_id,) = await gated.offered()
    await gated.accept(other_ride, driver_id)
    await gated.gate_knows(other_ride)
    assert await gated.gate_says(ride_id) is None


async def test_when_redis_is_back_the_gate_works_again(gated: GatedDesk) -> None:
    ride_id, (driver_id,) = await gated.offered()
    gated.server.freeze()
    assert (await gated.accept(ride_id, driver_id)).status_code == 200
    gated.server.thaw()
    await gated.redis_is_back()
    ride_id, (driver_id,) = await gated.offered()
    await gated.accept(ride_id, driver_id)
    await gated.gate_knows(ride_id)
