"""A client's own appointments are limited in number and do not overlap; an operator's may."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import httpx

from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.past_appointments import move_back
from tests.domains.scheduling.waitlist import Line, cancel, invariants_hold, taken


def code_of(answer: httpx.Response) -> str:
    return "booked" if answer.status_code == 201 else f"{answer.status_code} {answer.json()['code']}"


def hours(clinic: Clinic, count: int) -> list[str]:
    return [clinic.at(f"{9 + number % 9:02}:00", days=number // 9) for number in range(count)]


async def book_for(clinic: Clinic, client: UUID, starts_at: str, **more: Any) -> dict[str, Any]:
    """Book as an operator for the client."""
    body = clinic.wish(starts_at, client={"user_id": str(client)}, **more)
    return await clinic.call("POST", "/appointments", body)


async def known(clinic: Clinic, client: UUID) -> UUID:
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    return client


async def test_concurrent_bookings_stay_within_the_clients_limit(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    wishes = [
        (starts_at, (clinic.worker_id, other)[place % 2]) for place, starts_at in enumerate(hours(clinic, 26))
    ]
    answers = await asyncio.gather(
        *(clinic.book(client, starts_at, worker_id=worker_id) for starts_at, worker_id in wishes)
    )
    assert sorted(map(code_of, answers)) == ["409 too_many_appointments"] * 6 + ["booked"] * 20
    assert {answer.json()["limit"] for answer in answers if answer.is_error} == {20}
    assert code_of(await clinic.hold(client, clinic.at("09:00", days=5))) == "409 too_many_appointments"
    # A canceled appointment makes room for one more.
    booked = next(answer.json() for answer in answers if not answer.is_error)
    await clinic.act(client, booked["appointment_id"], "cancel")
    await clinic.booked(client, clinic.at("09:00", days=5))


async def test_concurrent_bookings_of_one_time_leave_one(clinic: Clinic) -> None:
    client = uuid4()
    workers = [clinic.worker_id, *[await clinic.worker() for _ in range(5)]]
    answers = await asyncio.gather(
        *(clinic.book(client, clinic.at("09:00"), worker_id=worker_id) for worker_id in workers)
    )
    assert sorted(map(code_of, answers)) == ["409 client_busy"] * 5 + ["booked"]


async def test_operators_are_outside_the_clients_limits(clinic: Clinic) -> None:
    client, other = await known(clinic, uuid4()), await clinic.worker()
    for starts_at in hours(clinic, 20):
        await book_for(clinic, client, starts_at)
    await book_for(clinic, client, clinic.at("09:00"), worker_id=other)
    # Operators' bookings do not count for the client, who may also book beside them.
    await clinic.booked(client, clinic.at("11:00"), worker_id=other)


async def test_holds_and_appointments_of_a_client_do_not_overlap(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    refused = await clinic.book(client, clinic.at("09:30"), worker_id=other)
    assert code_of(refused) == "409 client_busy"
    assert (refused.json()["appointment_id"], refused.json()["appointment_status"]) == (str(hold_id), "HELD")
    # An expired hold is ignored before its timer closes it.
    await clinic.let_lapse(hold_id)
    await clinic.booked(client, clinic.at("09:30"), worker_id=other)


async def test_canceled_and_missed_appointments_are_not_in_the_way(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    canceled = await clinic.booked(client, clinic.at("09:00"))
    await clinic.act(client, canceled["appointment_id"], "cancel")
    again = UUID((await clinic.booked(client, clinic.at("09:00"), worker_id=other))["appointment_id"])
    # As if its time had come; undone, because the change has no event.
    await clinic.sql("UPDATE appointments SET status = 'NO_SHOW' WHERE id = $1", again)
    third = await clinic.booked(client, clinic.at("09:00"))
    await clinic.act(client, third["appointment_id"], "cancel")
    await clinic.sql("UPDATE appointments SET status = 'BOOKED' WHERE id = $1", again)


async def test_past_appointments_do_not_count(clinic: Clinic) -> None:
    client = uuid4()
    for starts_at in hours(clinic, 20):
        last = await clinic.booked(client, starts_at)
    assert code_of(await clinic.book(client, clinic.at("09:00", days=5))) == "409 too_many_appointments"
    await move_back(clinic, last["appointment_id"], days=9)
    await clinic.booked(client, clinic.at("09:00", days=5))


async def test_moves_onto_another_appointment_are_refused(clinic: Clinic) -> None:
    client, account = uuid4(), uuid4()
    await clinic.api.get("/v1/me", headers=bearer("worker", account))
    other = await clinic.worker(user_id=str(account))
    nine = await clinic.booked(client, clinic.at("09:00"))
    noon = await clinic.booked(client, clinic.at("12:00"), worker_id=other)
    there = {"starts_at": clinic.at("09:30")}
    own = await clinic.act(client, noon["appointment_id"], "reschedule", **there)
    assert (code_of(own), own.json()["appointment_id"]) == ("409 client_busy", nine["appointment_id"])
    workers = await clinic.act(account, noon["appointment_id"], "reschedule", role="worker", **there)
    assert code_of(workers) == "409 client_busy"
    assert "appointment_id" not in workers.json(), "the worker is no party to the other appointment"
    operators = await clinic.act(
        clinic.operator, noon["appointment_id"], "reschedule", role="operator", **there
    )
    assert moment(operators.json()["starts_at"]) == moment(clinic.at("09:30"))
    # Moved by the client again, it is the client's own again.
    back = await clinic.act(client, noon["appointment_id"], "reschedule", starts_at=clinic.at("12:00"))
    assert back.status_code == 200, back.text
    assert code_of(await clinic.book(client, clinic.at("12:30"))) == "409 client_busy"
    await invariants_hold(clinic)


async def test_two_appointments_of_one_client_are_swapped(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    nine = await clinic.booked(client, clinic.at("09:00"))
    ten = await clinic.booked(client, clinic.at("10:00"), worker_id=other)
    swapped = await clinic.swap(nine, ten)
    assert [one["starts_at"] for one in swapped.json()["appointments"]] == [
        ten["starts_at"],
        nine["starts_at"],
    ]


async def test_series_lists_dates_at_which_the_client_is_busy(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    await clinic.booked(client, clinic.at("09:00", days=7), worker_id=other)
    body = clinic.wish(clinic.at("09:00"), every="week", count=3, on_conflict="skip")
    answer = await clinic.api.post(f"{BASE}/series", json=body, headers=bearer("passenger", client))
    assert len(answer.json()["appointments"]) == 2, answer.text
    (failed,) = answer.json()["failed"]
    assert (failed["code"], moment(failed["starts_at"])) == (
        "client_busy",
        moment(clinic.at("09:00", days=7)),
    )


async def test_waitlist_skips_clients_who_are_busy_or_full(clinic: Clinic, line: Line) -> None:
    other = await clinic.worker()
    owner = await taken(clinic)
    busy, full, free = [await line.join() for _ in range(3)]
    await clinic.booked(busy, clinic.at("09:30"), worker_id=other)
    for starts_at in hours(clinic, 28)[8:]:
        await clinic.booked(full, starts_at, worker_id=other)
    await cancel(clinic, *owner)
    async with line.dispatching():
        await line.becomes(free, "OFFERED")
        await line.settled()
    assert [await line.status(client) for client in (busy, full)] == ["WAITING", "WAITING"]
    await invariants_hold(clinic)
