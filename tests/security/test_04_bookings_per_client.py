"""One passenger cannot book a whole clinic, nor two doctors at one time."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, open_clinic


@pytest.fixture
async def clinic(api: httpx.AsyncClient, parts: Parts) -> Clinic:
    return await open_clinic(api, parts, horizon_days=60)


async def series(clinic: Clinic, client: object, number: int) -> httpx.Response:
    """The passenger's series `number`: 24 days, each series at another half hour of the day."""
    clock = f"{9 + number // 2:02}:{number % 2 * 30:02}"
    body = clinic.wish(clinic.at(clock), every="day", count=24, on_conflict="skip")
    return await clinic.api.post(f"{BASE}/series", json=body, headers=bearer("passenger", client))


async def booked_by(clinic: Clinic, client: object) -> int:
    (row,) = await clinic.sql("SELECT count(*) FROM appointments WHERE client_id = $1", client)
    return row["count"]


async def test_24_series_of_one_passenger_book_no_clinic(clinic: Clinic) -> None:
    client = uuid4()
    answers = [await series(clinic, client, number) for number in range(17)]
    assert {answer.status_code for answer in answers} == {409}
    assert {answer.json()["code"] for answer in answers} == {"too_many_in_series"}
    assert {answer.json()["limit"] for answer in answers} == {12}
    assert await booked_by(clinic, client) == 0


async def test_many_short_series_stay_within_the_limit(clinic: Clinic) -> None:
    client = uuid4()
    wishes = [clinic.wish(clinic.at(f"{9 + number:02}:00"), every="day", count=5) for number in range(8)]
    answers = await asyncio.gather(
        *(
            clinic.api.post(f"{BASE}/series", json=wish, headers=bearer("passenger", client))
            for wish in wishes
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [409] * 6
    assert await booked_by(clinic, client) == 10


async def test_passenger_is_not_at_two_doctors_at_one_time(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    first = await clinic.booked(client, clinic.at("09:00"))
    refused = await clinic.book(client, clinic.at("09:30"), worker_id=other)
    assert (refused.status_code, refused.json()["code"]) == (409, "client_busy")
    assert refused.json()["appointment_id"] == first["appointment_id"]
    assert refused.json()["starts_at"] == first["starts_at"]
    await clinic.booked(client, clinic.at("10:00"), worker_id=other)
