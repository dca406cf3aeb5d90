"""Two appointments are swapped, or none changes."""

import asyncio
from typing import Any
from uuid import uuid4

from tests.domains.scheduling.clinic import Clinic, moment
from tests.domains.scheduling.races import event_names


async def seen(clinic: Clinic, booked: dict[str, Any]) -> dict[str, Any]:
    return await clinic.call("GET", f"/appointments/{booked['appointment_id']}")


async def test_two_of_two_workers_swap_both_time_and_worker(clinic: Clinic) -> None:
    other = await clinic.worker()
    nine = await clinic.booked(uuid4(), clinic.at("09:00"))
    eleven = await clinic.booked(uuid4(), clinic.at("11:30"), worker_id=other)
    swapped = (await clinic.swap(nine, eleven)).json()["appointments"]
    assert [(one["worker_id"], moment(one["starts_at"])) for one in swapped] == [
        (str(other), moment(clinic.at("11:30"))),
        (str(clinic.worker_id), moment(clinic.at("09:00"))),
    ]
    for one in (nine, eleven):
        assert await event_names(clinic, one["appointment_id"]) == ["booked", "rescheduled"]
    back = (await clinic.swap(nine, eleven)).json()["appointments"]
    assert [one["starts_at"] for one in back] == [nine["starts_at"], eleven["starts_at"]]


async def test_two_of_different_length_swap_if_both_fit(clinic: Clinic) -> None:
    long = await clinic.service(duration_minutes=90, slot_step_minutes=30)
    await clinic.serves(clinic.worker_id, clinic.service_id, long)
    short_one = await clinic.booked(uuid4(), clinic.at("09:00"))
    long_one = await clinic.booked(uuid4(), clinic.at("10:30"), service_id=long)
    noon = await clinic.booked(uuid4(), clinic.at("12:00"))
    swapped = (await clinic.swap(short_one, long_one)).json()["appointments"]
    assert [(moment(one["starts_at"]), moment(one["ends_at"])) for one in swapped] == [
        (moment(clinic.at("10:30")), moment(clinic.at("11:30"))),
        (moment(clinic.at("09:00")), moment(clinic.at("10:30"))),
    ]
    assert (await clinic.swap(swapped[1], noon)).status_code == 200, "the longer one fits from noon"
    assert await clinic.overlaps() == []


async def test_a_swap_that_fails_moves_neither(clinic: Clinic) -> None:
    long = await clinic.service(duration_minutes=120, slot_step_minutes=30)
    await clinic.serves(clinic.worker_id, clinic.service_id, long)
    long_one = await clinic.booked(uuid4(), clinic.at("13:00"), service_id=long)
    short_one = await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.booked(uuid4(), clinic.at("10:30"))
    for pair in ((long_one, short_one), (short_one, long_one)):
        refused = await clinic.swap(*pair)
        assert (refused.status_code, refused.json()["code"]) == (409, "slot_taken")
    assert [await seen(clinic, one) for one in (long_one, short_one)] == [long_one, short_one]
    assert await event_names(clinic, short_one["appointment_id"]) == ["booked"]
    other = await clinic.worker()
    with_other = await clinic.booked(uuid4(), clinic.at("16:00"), worker_id=other)
    refused = await clinic.swap(long_one, with_other)
    assert refused.json()["faults"] == ["no_worker"], "the other worker does not do the service"
    assert await seen(clinic, with_other) == with_other


async def test_swapped_with_itself_nothing_moves(clinic: Clinic) -> None:
    one = await clinic.booked(uuid4(), clinic.at("09:00"))
    assert (await clinic.swap(one, one)).json()["appointments"] == [one, one]
    assert await event_names(clinic, one["appointment_id"]) == ["booked"]
    assert (await clinic.swap(one, {"appointment_id": str(uuid4())})).status_code == 404


async def test_concurrent_swaps_of_one_pair_are_serialized(clinic: Clinic) -> None:
    other = await clinic.worker()
    one = await clinic.booked(uuid4(), clinic.at("09:00"))
    two = await clinic.booked(uuid4(), clinic.at("11:00"), worker_id=other)
    answers = await asyncio.gather(clinic.swap(one, two), clinic.swap(two, one))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert (await seen(clinic, one))["starts_at"] == one["starts_at"]
    assert (await seen(clinic, one))["sequence"] == 2
