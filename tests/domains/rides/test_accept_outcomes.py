"""The outcomes of an attempt to accept, in order of precedence; each is recorded once."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.domains.rides.desk import Desk


def verdict(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def recorded(desk: Desk, ride_id: UUID, driver_id: UUID) -> list[tuple[str, str | None]]:
    """The keys and failures of this driver's attempts at the ride."""
    return [
        (attempt["idempotency_key"], attempt["failure_reason"])
        for attempt in await desk.attempts(ride_id)
        if attempt["driver_id"] == str(driver_id)
    ]


async def attempts_of(desk: Desk, driver_id: UUID) -> int:
    rows = await desk.sql("SELECT id FROM ride_accept_attempts WHERE driver_id = $1", driver_id)
    return len(rows)


async def refused_twice(desk: Desk, ride_id: UUID, driver_id: UUID, key: str) -> dict[str, Any]:
    """Return the refusal of an attempt; a repeat must get the same except for `request_id`."""
    first, again = [(await desk.accept(ride_id, driver_id, key)).json() for _ in range(2)]
    assert first.pop("request_id") != again.pop("request_id")
    assert first == again
    assert [kept for kept, _ in await recorded(desk, ride_id, driver_id)].count(key) == 1
    return first


async def test_unknown_ride_is_not_found_and_not_recorded(desk: Desk) -> None:
    driver_id = await desk.new_driver()
    assert verdict(await desk.accept(uuid4(), driver_id, "k")) == (404, "ride_not_found")
    assert await attempts_of(desk, driver_id) == 0


async def test_unknown_ride_does_not_use_the_key(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    assert verdict(await desk.accept(uuid4(), driver_id, "k")) == (404, "ride_not_found")
    assert (await desk.accept(ride_id, driver_id, "k")).status_code == 200


async def test_repeated_attempt_returns_the_stored_answer(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    first = await desk.accept(ride_id, driver_id)
    await desk.drive_to("STARTED", ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id)).content == first.content
    assert len(await desk.attempts(ride_id)) == 1


async def test_repeat_after_giving_up_returns_the_success(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    first = (await desk.accept(ride_id, driver_id)).json()
    await desk.give_up(ride_id, driver_id)
    repeat = await desk.accept(ride_id, driver_id)
    same = ("ride_id", "status", "driver_id", "accepted_at")
    assert (repeat.status_code, [repeat.json()[name] for name in same]) == (
        200,
        [first[name] for name in same],
    )
    assert await desk.status(ride_id) == "SEARCHING"


async def test_key_of_one_ride_is_refused_for_another(desk: Desk) -> None:
    taken, (driver_id, winner_id) = await desk.offered(2)
    await desk.accept(taken, winner_id)
    assert verdict(await desk.accept(taken, driver_id, "k")) == (409, "ride_already_accepted")
    other = await desk.request()
    await desk.offer(other, driver_id)
    assert (await refused_twice(desk, other, driver_id, "k"))["code"] == "idempotency_key_reused"
    assert await desk.status(other) == "OFFERED"
    assert (await desk.accept(other, driver_id, "a-fresh-key")).status_code == 200


async def test_reused_key_comes_before_other_refusals(desk: Desk) -> None:
    first, (driver_id, winner_id, other_id) = await desk.offered(3)
    await desk.accept(first, winner_id)
    await desk.accept(first, driver_id, "k")
    never_offered, expired, taken = [await desk.request() for _ in range(3)]
    await desk.offer(expired, driver_id)
    await desk.let_lapse(expired)
    await desk.offer(taken, driver_id, other_id)
    await desk.accept(taken, other_id)
    for ride_id in (never_offered, expired, taken):
        assert verdict(await desk.accept(ride_id, driver_id, "k")) == (422, "idempotency_key_reused")


async def test_key_refused_for_a_ride_stays_with_the_first(desk: Desk) -> None:
    """The key is used for the first ride and refused for the second; it still belongs to the first."""
    first, (driver_id, winner_id) = await desk.offered(2)
    await desk.accept(first, winner_id)
    await desk.accept(first, driver_id, "k")
    second = await desk.request()
    assert verdict(await desk.accept(second, driver_id, "k")) == (422, "idempotency_key_reused")
    await desk.give_up(first, winner_id)
    await desk.offer(first, driver_id)
    assert (await desk.accept(first, driver_id, "k")).status_code == 200


async def test_two_drivers_may_use_the_same_key(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    assert (await desk.accept(ride_id, winner_id, "k")).status_code == 200
    lost = await desk.accept(ride_id, loser_id, "k")
    assert verdict(lost) == (409, "ride_already_accepted")
    assert lost.json()["accepted_by_you"] is False
    assert str(winner_id) not in lost.text


async def test_driver_without_an_offer_is_refused(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    driver_id = await desk.new_driver()
    refusal = await refused_twice(desk, ride_id, driver_id, "k")
    assert (refusal["status"], refusal["code"]) == (403, "offer_not_received")
    (attempt,) = await desk.attempts(ride_id)
    assert (attempt["offer_id"], attempt["failure_reason"]) == (None, "offer_not_received")
    assert await desk.status(ride_id) == "OFFERED"


async def test_offer_not_received_comes_before_already_accepted(desk: Desk) -> None:
    ride_id, _ = await desk.accepted()
    driver_id = await desk.new_driver()
    assert verdict(await desk.accept(ride_id, driver_id)) == (403, "offer_not_received")


@pytest.mark.parametrize("ended", [False, True], ids=["not noticed yet", "ended by the timer"])
async def test_expired_offer_returns_410(desk: Desk, ended: bool) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.let_lapse(ride_id)
    if ended:
        await desk.settle(ride_id)
    refusal = await refused_twice(desk, ride_id, driver_id, "k")
    assert (refusal["status"], refusal["code"]) == (410, "offer_expired")
    assert await desk.status(ride_id) == ("SEARCHING" if ended else "OFFERED")


async def test_offer_expired_comes_before_already_accepted(desk: Desk) -> None:
    ride_id, (late_id, winner_id) = await desk.offered(2)
    await desk.let_lapse(ride_id, late_id)
    await desk.settle(ride_id)
    assert (await desk.accept(ride_id, winner_id)).status_code == 200
    assert verdict(await desk.accept(ride_id, late_id)) == (410, "offer_expired")


async def test_taken_ride_is_refused_to_other_drivers_to_its_end(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    for status in ("ACCEPTED", "ARRIVING", "STARTED", "COMPLETED"):
        await desk.drive_to(status, ride_id, winner_id)
        refusal = await refused_twice(desk, ride_id, loser_id, status)
        assert (refusal["status"], refusal["code"]) == (409, "ride_already_accepted")
        assert refusal["accepted_by_you"] is False
    kept = [attempt for attempt in await desk.attempts(ride_id) if attempt["driver_id"] == str(loser_id)]
    assert [attempt["ride_status"] for attempt in kept] == [attempt["idempotency_key"] for attempt in kept]


async def test_accept_with_another_key_returns_accepted_by_you(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    refusal = await refused_twice(desk, ride_id, driver_id, "another")
    assert (refusal["status"], refusal["code"]) == (409, "ride_already_accepted")
    assert refusal["accepted_by_you"] is True
    assert await desk.event_keys(ride_id) == ["ride.requested", "ride.accepted"]


async def test_canceled_ride_cannot_be_accepted(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.cancel(ride_id, desk.operator)
    refusal = await refused_twice(desk, ride_id, driver_id, "k")
    assert (refusal["status"], refusal["code"]) == (400, "ride_cannot_be_accepted")
    assert refusal["ride_status"] == "CANCELED"


async def test_rejected_offer_cannot_be_accepted(desk: Desk) -> None:
    ride_id, (driver_id, _) = await desk.offered(2)
    await desk.reject(ride_id, driver_id)
    refusal = await refused_twice(desk, ride_id, driver_id, "k")
    assert (refusal["status"], refusal["code"]) == (400, "ride_cannot_be_accepted")
    assert refusal["ride_status"] == await desk.status(ride_id) == "OFFERED"


async def test_english_details_are_those_of_the_seed(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    lapsed, (late_id,) = await desk.offered()
    await desk.let_lapse(lapsed)
    canceled, (free_id,) = await desk.offered()
    await desk.cancel(canceled, desk.operator)
    attempts = [
        (uuid4(), winner_id, 404, "Ride not found"),
        (ride_id, loser_id, 409, "Ride already accepted by another driver"),
        (ride_id, late_id, 403, "You did not receive this ride offer"),
        (lapsed, late_id, 410, "Ride offer has expired"),
        (canceled, free_id, 400, "Ride cannot be accepted. Current status: CANCELED"),
        # The seed has no text for this one.
        (ride_id, winner_id, 409, "You have already accepted this ride."),
    ]
    for wanted, driver_id, status, detail in attempts:
        answer = await desk.accept(wanted, driver_id, uuid4().hex, **{"accept-language": "en"})
        assert (answer.status_code, answer.json()["detail"]) == (status, detail)


async def test_refusal_does_not_apply_to_a_newer_offer(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.let_lapse(ride_id)
    await desk.settle(ride_id)
    assert verdict(await desk.accept(ride_id, driver_id, "k")) == (410, "offer_expired")
    await desk.offer(ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id, "k")).status_code == 200
    assert await recorded(desk, ride_id, driver_id) == [("k", "offer_expired"), ("k", None)]


async def test_earlier_loser_can_accept_a_ride_given_up(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id, "mine")
    assert verdict(await desk.accept(ride_id, loser_id, "k")) == (409, "ride_already_accepted")
    await desk.give_up(ride_id, winner_id)
    # The search continues; without a newer offer the answer stays the same.
    assert verdict(await desk.accept(ride_id, loser_id, "k")) == (409, "ride_already_accepted")
    made = await desk.offer(ride_id, winner_id, loser_id)
    assert made["skipped"] == [{"driver_id": str(winner_id), "reason": "gave_it_up"}]
    assert (await desk.accept(ride_id, loser_id, "k")).status_code == 200
    ride = await desk.read(ride_id)
    assert (ride["status"], ride["driver_id"], ride["round"]) == ("ACCEPTED", str(loser_id), 2)
    assert await recorded(desk, ride_id, loser_id) == [("k", "ride_already_accepted"), ("k", None)]


async def test_driver_who_gave_up_cannot_accept_with_a_new_key(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.give_up(ride_id, driver_id)
    assert verdict(await desk.accept(ride_id, driver_id, "again")) == (400, "ride_cannot_be_accepted")
    await desk.offer(ride_id, await desk.new_driver())
    assert verdict(await desk.accept(ride_id, driver_id, "once-more")) == (400, "ride_cannot_be_accepted")
    assert (await desk.read(ride_id))["driver_id"] is None


async def test_forbidden_accept_is_recorded_for_no_driver(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    stranger_id = await desk.new_driver()
    answer = await desk.api.post(
        f"/rides/{ride_id}/accept",
        json={"driver_id": str(driver_id), "idempotency_key": "k"},
        headers=bearer("driver", stranger_id),
    )
    assert verdict(answer) == (403, "forbidden")
    assert await attempts_of(desk, driver_id) == await attempts_of(desk, stranger_id) == 0
