"""Several clients at one time: a session claims the worker once, and each client has a seat."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.scheduling.holds import service as holds
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import Clinic, moment, open_clinic, service_body
from tests.domains.scheduling.races import by_hand, claims_of, started


@pytest.fixture
async def clinic(api: httpx.AsyncClient, parts: Parts) -> Clinic:
    return await open_clinic(api, parts, capacity=2)


async def seats_left(clinic: Clinic, clock: str) -> int | None:
    """The free seats of the slot at this time; None if it is not offered."""
    wanted = moment(clinic.at(clock))
    found = [slot["seats_left"] for slot in await clinic.slots() if moment(slot["starts_at"]) == wanted]
    return found[0] if found else None


async def moved(clinic: Clinic, client: UUID, booked: dict[str, Any], clock: str) -> httpx.Response:
    return await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at(clock))


async def test_clients_join_until_the_seats_are_taken_and_leave_again(clinic: Clinic) -> None:
    clients = [uuid4(), uuid4()]
    assert await seats_left(clinic, "09:00") == 2
    first = await clinic.booked(clients[0], clinic.at("09:00"))
    assert await seats_left(clinic, "09:00") == 1
    second = await clinic.booked(clients[1], clinic.at("09:00"))
    assert await seats_left(clinic, "09:00") is None
    lost = await clinic.book(uuid4(), clinic.at("09:00"))
    assert (lost.status_code, lost.json()["code"]) == (409, "slot_taken")
    assert (await clinic.book(uuid4(), clinic.at("09:30"))).status_code == 409, "the worker is busy"
    assert len(await claims_of(clinic, clinic.worker_id)) == 1
    await clinic.act(clients[0], first["appointment_id"], "cancel")
    assert await seats_left(clinic, "09:00") == 1
    await clinic.act(clients[1], second["appointment_id"], "cancel")
    assert await claims_of(clinic, clinic.worker_id) == [], "the last cancellation frees the time"
    await clinic.booked(uuid4(), clinic.at("09:30"))


async def test_a_session_keeps_the_capacity_it_was_opened_with(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(capacity=3))
    assert (await seats_left(clinic, "09:00"), await seats_left(clinic, "10:00")) == (1, 3)
    await clinic.booked(uuid4(), clinic.at("09:00"))
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409
    for _ in range(3):
        await clinic.booked(uuid4(), clinic.at("10:00"))
    assert (await clinic.book(uuid4(), clinic.at("10:00"))).status_code == 409


async def test_a_group_reduced_to_one_accepts_no_more_clients(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.call("PUT", f"/services/{clinic.service_id}", service_body(capacity=1))
    assert await seats_left(clinic, "09:00") is None
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409


async def test_client_moves_between_groups_and_others_stay(clinic: Clinic) -> None:
    one, other, third = uuid4(), uuid4(), uuid4()
    booked = await clinic.booked(one, clinic.at("09:00"))
    await clinic.booked(other, clinic.at("09:00"))
    full = await clinic.booked(third, clinic.at("11:00"))
    assert (await moved(clinic, third, full, "09:00")).json()["code"] == "slot_taken"
    overlapping = await moved(clinic, one, booked, "09:30")
    assert overlapping.json()["code"] == "slot_taken", "the other client keeps the session"
    answer = await moved(clinic, one, booked, "11:00")
    assert answer.status_code == 200, answer.text
    assert (await seats_left(clinic, "09:00"), await seats_left(clinic, "11:00")) == (1, None)
    assert (await moved(clinic, third, full, "09:00")).status_code == 200
    assert (await seats_left(clinic, "09:00"), await seats_left(clinic, "11:00")) == (None, 1)


async def test_moving_the_only_member_frees_the_groups_time(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    assert (await moved(clinic, client, booked, "09:30")).status_code == 200
    (claim,) = await claims_of(clinic, clinic.worker_id)
    assert claim["begins_at"] == moment(clinic.at("09:30"))


@pytest.mark.parametrize("came_first", [True, False])
async def test_the_seat_of_an_expired_hold_can_be_booked(clinic: Clinic, came_first: bool) -> None:
    async def book_seat() -> None:
        await clinic.booked(uuid4(), clinic.at("09:00"))

    if came_first:
        await book_seat()
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    if not came_first:
        await book_seat()
    await clinic.let_lapse(hold_id)
    assert await seats_left(clinic, "09:00") == 1
    await book_seat()
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409


async def test_the_seat_of_an_expired_hold_can_be_moved_to(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("11:00"))
    await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.let_lapse(await clinic.held(uuid4(), clinic.at("09:00")))
    answer = await moved(clinic, client, booked, "09:00")
    assert answer.status_code == 200, answer.text


async def test_client_has_one_seat_and_operators_give_more(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    assert await clinic.held(client, clinic.at("09:00")) == hold_id
    await clinic.booked(client, clinic.at("09:00"), hold_id=hold_id)
    refused = await clinic.book(client, clinic.at("09:00"))
    assert (refused.status_code, refused.json()["code"]) == (409, "client_busy")
    for_client = clinic.wish(clinic.at("09:00"), client={"user_id": str(client)})
    held = await clinic.call("POST", "/holds", for_client)
    booked = await clinic.call("POST", "/appointments", {**for_client, "hold_id": held["hold_id"]})
    assert booked["appointment_id"] != str(hold_id)


async def test_operator_holds_a_seat_with_each_call(clinic: Clinic) -> None:
    client = uuid4()
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    for_client = clinic.wish(clinic.at("09:00"), client={"user_id": str(client)})
    first, second = [(await clinic.call("POST", "/holds", for_client))["hold_id"] for _ in range(2)]
    assert first != second


async def test_two_swap_between_groups_that_are_full(clinic: Clinic) -> None:
    nine = [await clinic.booked(uuid4(), clinic.at("09:00")) for _ in range(2)]
    eleven = [await clinic.booked(uuid4(), clinic.at("11:00")) for _ in range(2)]
    for one, other in ((nine[0], eleven[0]), (nine[1], eleven[1])):
        swapped = await clinic.swap(one, other)
        assert swapped.status_code == 200, swapped.text
        times = [moment(found["starts_at"]) for found in swapped.json()["appointments"]]
        assert times == [moment(clinic.at("11:00")), moment(clinic.at("09:00"))]
    assert len(await claims_of(clinic, clinic.worker_id)) == 2


@pytest.mark.parametrize("alone_first", [True, False])
async def test_a_single_appointment_swaps_with_a_full_groups_member(
    clinic: Clinic, alone_first: bool
) -> None:
    nine = await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.booked(uuid4(), clinic.at("09:00"))
    eleven = await clinic.booked(uuid4(), clinic.at("11:00"))
    swapped = await (clinic.swap(eleven, nine) if alone_first else clinic.swap(nine, eleven))
    assert swapped.status_code == 200, swapped.text
    assert (await seats_left(clinic, "09:00"), await seats_left(clinic, "11:00")) == (None, 1)


async def test_swap_within_one_group_changes_nothing(clinic: Clinic) -> None:
    pair = [await clinic.booked(uuid4(), clinic.at("09:00")) for _ in range(2)]
    swapped = await clinic.swap(*pair)
    assert swapped.status_code == 200, swapped.text
    assert swapped.json()["appointments"] == pair


async def test_leaving_while_the_last_hold_expires_frees_the_session(clinic: Clinic) -> None:
    """Neither transaction sees the other's seat gone; the second to commit must free the session."""
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    await clinic.let_lapse(hold_id)
    async with by_hand(clinic) as db:
        await holds.expire_hold(db, hold_id)
        leaving = await started(clinic, clinic.act(client, booked["appointment_id"], "cancel"))
    assert (await leaving).status_code == 200
    assert await claims_of(clinic, clinic.worker_id) == []


async def test_moving_while_the_last_hold_expires_frees_the_session(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    await clinic.let_lapse(hold_id)
    async with by_hand(clinic) as db:
        await holds.expire_hold(db, hold_id)
        moving = await started(clinic, moved(clinic, client, booked, "11:00"))
    assert (await moving).status_code == 200
    (claim,) = await claims_of(clinic, clinic.worker_id)
    assert claim["begins_at"] == moment(clinic.at("11:00"))


@pytest.mark.parametrize("comes", ["new", "from elsewhere"])
async def test_joining_during_a_holds_expiry_waits_and_gets_the_seat(clinic: Clinic, comes: str) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    client = uuid4()
    elsewhere = await clinic.booked(client, clinic.at("11:00"))
    await clinic.let_lapse(hold_id)
    async with by_hand(clinic) as db:
        await holds.expire_hold(db, hold_id)
        request = (
            clinic.book(client, clinic.at("09:00"))
            if comes == "new"
            else moved(clinic, client, elsewhere, "09:00")
        )
        joining = await started(clinic, request)
    assert (await joining).is_success, (await joining).text
    assert await seats_left(clinic, "09:00") is None


async def test_joining_a_session_being_freed_reopens_it_or_is_refused(clinic: Clinic) -> None:
    """The only client leaves while another joins: no seat may be in a session that was freed."""
    for _ in range(10):
        client = uuid4()
        booked = await clinic.booked(client, clinic.at("09:00"))
        joining, leaving = await asyncio.gather(
            clinic.book(uuid4(), clinic.at("09:00")), clinic.act(client, booked["appointment_id"], "cancel")
        )
        assert (joining.status_code, leaving.status_code) == (201, 200)
        joined = joining.json()["appointment_id"]
        ended = await clinic.act(clinic.operator, joined, "cancel", role="operator")
        assert ended.status_code == 200
        assert await claims_of(clinic, clinic.worker_id) == []
