"""Series: the same time repeatedly, with one worker; all appointments or none, or those possible."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import httpx
import pytest

from catraca.domains.scheduling.series.model import Recurrence, occurrences
from catraca.domains.scheduling.series.service import MAX_WITH_ALTERNATIVES
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment, open_clinic
from tests.domains.scheduling.past_appointments import move_back


async def ask(clinic: Clinic, client: UUID, starts_at: str, **more: Any) -> httpx.Response:
    """Book a series: weekly, four times, with the clinic's worker."""
    headers: dict[str, str] = more.pop("headers", {})
    body = clinic.wish(starts_at, **{"every": "week", "count": 4, **more})
    return await clinic.api.post(f"{BASE}/series", json=body, headers=bearer("passenger", client) | headers)


async def booked(clinic: Clinic, client: UUID, starts_at: str, **more: Any) -> dict[str, Any]:
    answer = await ask(clinic, client, starts_at, **more)
    assert answer.status_code == 201, answer.text
    return answer.json()


def starts_of(series: dict[str, Any]) -> list[datetime]:
    return [moment(one["starts_at"]) for one in series["appointments"]]


async def appointments_of(clinic: Clinic, client: UUID) -> list[dict[str, Any]]:
    answer = await clinic.api.get(f"{BASE}/appointments", headers=bearer("passenger", client))
    return answer.json()["appointments"]


async def test_a_weekly_series_keeps_worker_and_local_time(clinic: Clinic) -> None:
    client = uuid4()
    series = await booked(clinic, client, clinic.at("09:00"))
    assert starts_of(series) == [moment(clinic.at("09:00", days=7 * week)) for week in range(4)]
    assert {one["worker_id"] for one in series["appointments"]} == {str(clinic.worker_id)}
    assert {one["series_id"] for one in series["appointments"]} == {series["series_id"]}
    assert series["failed"] == []
    events = await clinic.sql(
        "SELECT aggregate_id FROM outbox WHERE aggregate_id = ANY ($1::uuid[]) UNION ALL"
        " SELECT aggregate_id FROM outbox_sent WHERE aggregate_id = ANY ($1::uuid[])",
        [UUID(one["appointment_id"]) for one in series["appointments"]],
    )
    assert len(events) == 4
    seen = await clinic.api.get(f"{BASE}/series/{series['series_id']}", headers=bearer("passenger", client))
    assert starts_of(seen.json()) == starts_of(series)


async def test_series_with_a_taken_date_books_nothing_and_lists_it(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00", days=14))
    client = uuid4()
    refused = await ask(clinic, client, clinic.at("09:00"))
    assert refused.status_code == 409
    problem = refused.json()
    assert problem["code"] == "series_taken"
    [failed] = problem["failed"]
    assert moment(failed["starts_at"]) == moment(clinic.at("09:00", days=14))
    assert (failed["code"], failed["faults"]) == ("slot_taken", ["busy"])
    assert moment(failed["alternatives"][0]["starts_at"]) == moment(clinic.at("10:00", days=14))
    assert await appointments_of(clinic, client) == []


async def test_skipping_series_books_the_rest_and_lists_failures(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00", days=14))
    client = uuid4()
    series = await booked(clinic, client, clinic.at("09:00"), on_conflict="skip")
    assert starts_of(series) == [moment(clinic.at("09:00", days=days)) for days in (0, 7, 21)]
    assert [moment(one["starts_at"]) for one in series["failed"]] == [moment(clinic.at("09:00", days=14))]
    assert len(await appointments_of(clinic, client)) == 3


async def test_a_series_without_any_free_slot_is_refused(clinic: Clinic) -> None:
    refused = await ask(clinic, uuid4(), clinic.at("07:00"), on_conflict="skip")
    assert refused.status_code == 409
    assert [one["faults"] for one in refused.json()["failed"]] == [["outside_hours"]] * 4


async def test_first_failed_dates_have_alternatives(clinic: Clinic) -> None:
    refused = await ask(clinic, uuid4(), clinic.at("09:07"), worker_id=None, every="day", count=8)
    failed = refused.json()["failed"]
    assert [one["faults"] for one in failed] == [["off_grid"]] * 8
    assert [len(one["alternatives"]) for one in failed] == [5] * MAX_WITH_ALTERNATIVES + [0] * 3


async def test_dates_beyond_the_horizon_fail_alone(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, horizon_days=20)
    client = {"name": "Jorge", "contact": "jorge@example.org"}
    body = clinic.wish(clinic.at("09:00"), every="week", count=52, on_conflict="skip", client=client)
    series = await clinic.call("POST", "/series", body)
    assert len(series["appointments"]) == 3
    assert [one["faults"] for one in series["failed"]] == [["beyond_horizon"]] * 49
    assert {one["code"] for one in series["failed"]} == {"slot_not_offered"}


async def test_series_for_any_worker_takes_the_most_available_one(clinic: Clinic) -> None:
    other = await clinic.worker()
    await clinic.booked(uuid4(), clinic.at("09:00", days=7))
    # The other worker has more booked, but is the only one free for the whole series.
    for hour in ("12:00", "13:00", "14:00"):
        await clinic.booked(uuid4(), clinic.at(hour), worker_id=other)
    series = await booked(clinic, uuid4(), clinic.at("09:00"), worker_id=None)
    assert {one["worker_id"] for one in series["appointments"]} == {str(other)}


async def test_workers_with_equal_dates_are_chosen_fairly(clinic: Clinic) -> None:
    other = await clinic.worker()
    await clinic.booked(uuid4(), clinic.at("12:00"))
    series = await booked(clinic, uuid4(), clinic.at("09:00"), worker_id=None)
    assert {one["worker_id"] for one in series["appointments"]} == {str(other)}


async def test_appointments_of_a_series_do_not_overlap_with_each_other(
    api: httpx.AsyncClient, parts: Parts
) -> None:
    hours = [{"weekday": weekday, "start": "00:00", "end": "24:00"} for weekday in range(1, 8)]
    clinic = await open_clinic(api, parts, duration_minutes=1440, buffer_after_minutes=60)
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", hours)
    refused = await ask(clinic, uuid4(), clinic.at("00:00"), every="day", count=2)
    assert refused.json()["failed"][0]["faults"] == ["busy"], refused.text
    series = await booked(clinic, uuid4(), clinic.at("00:00"), every="day", count=5, on_conflict="skip")
    assert starts_of(series) == [moment(clinic.at("00:00", days=days)) for days in (0, 2, 4)]
    assert await clinic.overlaps() == []


async def test_the_same_series_has_one_winner(clinic: Clinic) -> None:
    answers = await asyncio.gather(*(ask(clinic, uuid4(), clinic.at("09:00")) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
    assert await clinic.overlaps() == []


async def test_a_repeated_request_books_one_series(clinic: Clinic) -> None:
    client, key = uuid4(), {"Idempotency-Key": str(uuid4())}
    first = await booked(clinic, client, clinic.at("09:00"), headers=key)
    again = await booked(clinic, client, clinic.at("09:00"), headers=key)
    assert again["series_id"] == first["series_id"]
    assert len(await appointments_of(clinic, client)) == 4


async def test_series_cancel_frees_future_dates_and_is_repeatable(clinic: Clinic) -> None:
    client = uuid4()
    series = await booked(clinic, client, clinic.at("09:00"))
    await move_back(clinic, series["appointments"][0]["appointment_id"], days=4)
    path = f"{BASE}/series/{series['series_id']}/cancel"
    for _ in range(2):
        left = await clinic.api.post(path, json={"reason": "moved away"}, headers=bearer("passenger", client))
        assert left.status_code == 200, left.text
        assert [one["status"] for one in left.json()["appointments"]] == ["BOOKED"] + ["CANCELED"] * 3
    await clinic.booked(uuid4(), clinic.at("09:00", days=7))


async def test_series_is_not_found_by_other_callers(clinic: Clinic) -> None:
    series = await booked(clinic, uuid4(), clinic.at("09:00"))
    path, stranger = f"{BASE}/series/{series['series_id']}", bearer("passenger", uuid4())
    assert (await clinic.api.get(path, headers=stranger)).status_code == 404
    assert (await clinic.api.post(f"{path}/cancel", headers=stranger)).status_code == 404
    assert (await clinic.api.get(path, headers=bearer("operator", clinic.operator))).status_code == 200


@pytest.mark.parametrize("wrong", [{"count": 1}, {"count": 53}, {"every": "year"}, {"on_conflict": "hope"}])
async def test_a_series_has_bounds(clinic: Clinic, wrong: dict[str, Any]) -> None:
    assert (await ask(clinic, uuid4(), clinic.at("09:00"), **wrong)).status_code == 422


def local_starts(zone: str, first: datetime, every: Any, count: int) -> list[str]:
    found = occurrences(zone, int(first.timestamp()), Recurrence(every=every, count=count))
    return [datetime.fromtimestamp(one, ZoneInfo(zone)).isoformat() for one in found]


def test_across_a_switch_the_clocks_show_the_same_time() -> None:
    zone = "America/New_York"
    first = datetime(2026, 10, 25, 9, tzinfo=ZoneInfo(zone))
    assert local_starts(zone, first, "week", 3) == [
        "2026-10-25T09:00:00-04:00",
        "2026-11-01T09:00:00-05:00",
        "2026-11-08T09:00:00-05:00",
    ]


def test_a_clock_switch_shifts_only_its_own_date() -> None:
    zone = "America/New_York"
    first = datetime(2026, 3, 7, 2, 30, tzinfo=ZoneInfo(zone))
    assert local_starts(zone, first, "day", 3) == [
        "2026-03-07T02:30:00-05:00",
        # 02:30 does not exist on that day.
        "2026-03-08T03:30:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_a_month_later_is_the_same_day_or_the_last() -> None:
    first = datetime(2027, 11, 30, 9, tzinfo=UTC)
    assert [one[:10] for one in local_starts("UTC", first, "month", 5)] == [
        "2027-11-30",
        "2027-12-30",
        "2028-01-30",
        "2028-02-29",
        "2028-03-30",
    ]
