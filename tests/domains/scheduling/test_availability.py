"""Availability over HTTP: exactly the offered slots can be booked."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import httpx
import pytest

from catraca.domains.scheduling.availability.service import MAX_DAYS
from catraca.platform.texts import LANGUAGES, text
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, BASE, Clinic, moment, open_clinic
from tests.domains.scheduling.clocks import next_switch
from tests.servers import Stack
from tests.support.http import served
from tests.support.redis_server import private_redis
from tests.support.roles import own_parts

HALF_HOURS = [f"{hour:02}:{minute}" for hour in range(9, 17) for minute in ("00", "30")] + ["17:00"]


async def ask(clinic: Clinic, *, language: str = "en", **query: Any) -> httpx.Response:
    """Get the availability; `from_` is `from`, and None omits a parameter."""
    params = {
        "service_id": clinic.service_id,
        "from": clinic.at("00:00"),
        "to": clinic.at("00:00", days=1),
        **{name.rstrip("_"): value for name, value in query.items()},
    }
    return await clinic.api.get(
        f"{BASE}/availability",
        params={name: str(value) for name, value in params.items() if value is not None},
        headers=bearer("passenger", uuid4()) | {"accept-language": language},
    )


async def is_refused(clinic: Clinic, status: int, code: str, **query: Any) -> dict[str, Any]:
    """Check the refusal in both languages; returns the last problem."""
    problem: dict[str, Any] = {}
    for language in LANGUAGES:
        answer = await ask(clinic, language=language, **query)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["content-language"] == language
        assert problem["detail"] == text(f"refusals.{code}", language, problem)
    return problem


async def test_slots_are_of_one_worker_or_of_any_in_order(clinic: Clinic) -> None:
    other = await clinic.worker()
    assert await clinic.starts() == HALF_HOURS
    both = await clinic.slots(worker_id=None)
    assert [(slot["starts_at"], slot["worker_id"]) for slot in both] == sorted(
        (slot["starts_at"], str(worker))
        for slot in await clinic.slots()
        for worker in (clinic.worker_id, other)
    )
    first = both[0]
    assert moment(first["ends_at"]) - moment(first["starts_at"]) == timedelta(hours=1)
    assert first["seats_left"] == 1


async def test_paging_to_the_end_gives_the_same_as_one_page(clinic: Clinic) -> None:
    """Across days without slots, more than the first read covers."""
    other = await clinic.worker(rules=ALL_WEEK[:3])
    closed = [{"day": str(clinic.day + timedelta(days=days)), "shifts": []} for days in range(2, 7)]
    for worker_id in (clinic.worker_id, other):
        await clinic.call("PUT", f"/workers/{worker_id}/overrides", closed)
    query: dict[str, Any] = {"to": clinic.at("00:00", days=20)}
    whole = (await ask(clinic, limit=500, **query)).json()
    assert whole["next"] is None
    pages: list[dict[str, Any]] = []
    after = None
    while not pages or after:
        page = (await ask(clinic, limit=7, after=after, **query)).json()
        assert 0 < len(page["slots"]) <= 7
        pages += page["slots"]
        after = page["next"]
    assert pages == whole["slots"]
    assert len({(slot["starts_at"], slot["worker_id"]) for slot in pages}) == len(pages) > 150


async def test_a_full_last_page_has_no_next(clinic: Clinic) -> None:
    assert (await ask(clinic, limit=len(HALF_HOURS))).json()["next"] is None
    last_but_one = await ask(clinic, limit=len(HALF_HOURS) - 1)
    rest = (await ask(clinic, after=last_but_one.json()["next"])).json()
    assert [moment(slot["starts_at"]) for slot in rest["slots"]] == [moment(clinic.at("17:00"))]


async def test_times_are_shown_in_the_requested_zone(clinic: Clinic) -> None:
    shown = (await ask(clinic, time_zone="Asia/Kolkata")).json()["slots"]
    in_utc = (await ask(clinic)).json()["slots"]
    assert [slot["starts_at"][11:] for slot in shown[:2]] == ["14:30:00+05:30", "15:00:00+05:30"]
    assert in_utc[0]["starts_at"].endswith("T09:00:00Z")
    assert [moment(slot["starts_at"]) for slot in shown] == [moment(slot["starts_at"]) for slot in in_utc]


async def test_a_client_across_the_date_line_books_the_workers_morning(
    api: httpx.AsyncClient, parts: Parts
) -> None:
    """A morning at UTC+14 is the morning of the day before at UTC-11."""
    clinic = await open_clinic(api, parts, zone="Pacific/Kiritimati")
    here = (await ask(clinic, time_zone="Pacific/Pago_Pago")).json()["slots"]
    first = datetime.fromisoformat(here[0]["starts_at"])
    assert (first.date(), first.strftime("%H:%M%z")) == (clinic.day - timedelta(days=1), "08:00-1100")
    booked = await clinic.booked(uuid4(), here[0]["starts_at"])
    assert booked["local_starts_at"] == f"{clinic.day}T09:00:00"
    assert booked["time_zone"] == "Pacific/Kiritimati"


async def test_only_whole_seconds_from_the_first_on_count(clinic: Clinic) -> None:
    nine, ten = clinic.at("09:00").replace("+", ".000001+"), clinic.at("10:00").replace("+", ".000001+")
    found = (await ask(clinic, from_=nine, to=ten)).json()["slots"]
    assert [moment(slot["starts_at"]) for slot in found] == [
        moment(clinic.at("09:30")),
        moment(clinic.at("10:00")),
    ]


async def test_a_worker_without_rules_has_nothing_free(clinic: Clinic) -> None:
    idle = await clinic.worker(rules=[])
    assert await clinic.slots(worker_id=idle) == []


async def test_a_service_without_workers_has_nothing_free(clinic: Clinic) -> None:
    unserved = await clinic.service()
    assert await clinic.slots(service_id=unserved, worker_id=None) == []
    assert await clinic.slots(service_id=unserved) == []


async def test_unknown_ids_are_not_found(clinic: Clinic) -> None:
    await is_refused(clinic, 404, "not_found", service_id=uuid4())
    await is_refused(clinic, 404, "not_found", worker_id=uuid4())
    room = await clinic.room()
    await is_refused(clinic, 404, "not_found", worker_id=room)
    await is_refused(clinic, 422, "time_zone_unknown", time_zone="America/Salvador")


async def test_too_much_or_nothing_at_all_is_refused(clinic: Clinic) -> None:
    start = moment(clinic.at("00:00"))
    ten_years = (start + timedelta(days=3650)).isoformat()
    problem = await is_refused(clinic, 422, "range_too_long", to=ten_years)
    assert problem["most_days"] == MAX_DAYS
    await is_refused(clinic, 422, "range_invalid", to=clinic.at("00:00"))
    await is_refused(clinic, 422, "range_invalid", to=clinic.at("00:00", days=-1))
    longest = (start + timedelta(days=MAX_DAYS)).isoformat()
    assert (await ask(clinic, to=longest)).status_code == 200


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("from_", "2031-05-30T14:00:00", "timezone_aware"),
        ("from_", "1820-01-01T00:00:00Z", "moment_implausible"),
        ("to", "9999-01-01T00:00:00Z", "moment_implausible"),
        ("to", "soon", "datetime_from_date_parsing"),
        ("service_id", "massage", "uuid_parsing"),
        ("limit", 501, "less_than_equal"),
        ("limit", 0, "greater_than_equal"),
        ("after", "1.2", "string_pattern_mismatch"),
        ("from_", None, "missing"),
    ],
)
async def test_a_malformed_time_or_id_is_refused_with_its_place(
    clinic: Clinic, name: str, value: object, code: str
) -> None:
    for language in LANGUAGES:
        answer = await ask(clinic, language=language, **{name: value})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, "request_invalid")
        (wrong,) = problem["errors"]
        assert (wrong["where"], wrong["code"]) == (f"query.{name.rstrip('_')}", code)


async def test_in_the_past_and_beyond_the_horizon_nothing_is_free(clinic: Clinic) -> None:
    await clinic.call("PUT", f"/services/{clinic.service_id}", _terms(horizon_days=5))
    found = (await ask(clinic, from_=clinic.at("00:00", days=-60), to=clinic.at("00:00", days=30))).json()
    days = [moment(slot["starts_at"]).date() - clinic.day for slot in found["slots"]]
    assert -3 <= min(days).days <= 0
    assert max(days).days in (1, 2)
    assert (await ask(clinic, from_="1970-01-01T00:00:00Z", to="1970-02-01T00:00:00Z")).json()["slots"] == []
    assert (await ask(clinic, from_="2199-01-01T00:00:00Z", to="2199-02-01T00:00:00Z")).json()["slots"] == []


def _terms(**terms: Any) -> dict[str, Any]:
    return {"name": "Consulta", "duration_minutes": 60, "slot_step_minutes": 30, **terms}


async def test_retired_workers_are_not_offered(clinic: Clinic) -> None:
    other = await clinic.worker()
    body = {"name": "Ana", "time_zone": "UTC"}
    await clinic.call("PUT", f"/workers/{other}", body | {"retired": True})
    assert await clinic.slots(worker_id=other) == []
    assert {slot["worker_id"] for slot in await clinic.slots(worker_id=None)} == {str(clinic.worker_id)}
    await clinic.call("PUT", f"/workers/{other}", body)
    assert await clinic.starts(worker_id=other) == HALF_HOURS


async def test_a_retired_service_is_not_offered(clinic: Clinic) -> None:
    await clinic.call("PUT", f"/services/{clinic.service_id}", _terms(retired=True))
    assert await clinic.slots() == []
    assert await clinic.slots(worker_id=None) == []


async def test_with_all_its_rooms_retired_a_service_is_not_offered(clinic: Clinic) -> None:
    rooms = [await clinic.room(), await clinic.room()]
    await clinic.rooms_for(clinic.service_id, *rooms)
    assert await clinic.starts() == HALF_HOURS
    await clinic.call("PUT", f"/rooms/{rooms[0]}", {"name": "Sala 1", "retired": True})
    assert await clinic.starts() == HALF_HOURS
    await clinic.call("PUT", f"/rooms/{rooms[1]}", {"name": "Sala 2", "retired": True})
    assert await clinic.slots() == []
    refused = await clinic.book(uuid4(), clinic.at("09:00"))
    assert (refused.status_code, refused.json()["code"]) == (409, "slot_taken")
    assert refused.json()["alternatives"] == []
    await clinic.rooms_for(clinic.service_id)
    assert await clinic.starts() == HALF_HOURS


async def test_time_off_and_other_hours_are_seen_at_once(clinic: Clinic) -> None:
    shifts = [{"start": "10:00", "end": "12:00"}, {"start": "22:00", "end": "02:00"}]
    day = {"day": str(clinic.day), "shifts": shifts}
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", [day])
    assert await clinic.starts() == ["10:00", "10:30", "11:00", "22:00", "22:30", "23:00", "23:30"]
    off = {"starts_at": clinic.at("11:00"), "ends_at": clinic.at("23:15")}
    await clinic.call("POST", f"/workers/{clinic.worker_id}/time-off", off)
    assert await clinic.starts() == ["10:00", "23:30"]


async def test_alternatives_are_before_and_after_with_any_worker(clinic: Clinic) -> None:
    other = await clinic.worker()
    for worker_id in (clinic.worker_id, other):
        off = {"starts_at": clinic.at("11:00"), "ends_at": clinic.at("14:00")}
        await clinic.call("POST", f"/workers/{worker_id}/time-off", off)
    refused = await clinic.book(uuid4(), clinic.at("12:00"), worker_id=None)
    assert refused.status_code == 409
    alternatives = [(moment(slot["starts_at"]), slot["worker_id"]) for slot in refused.json()["alternatives"]]
    two = sorted([str(clinic.worker_id), str(other)])
    # 10:00 and 14:00 are two hours away, with both workers; 09:30 is the next nearest.
    assert alternatives == [
        (moment(clinic.at("09:30")), two[0]),
        *((moment(clinic.at(clock)), worker) for clock in ("10:00", "14:00") for worker in two),
    ]


@pytest.fixture
async def clinic_without_redis(stack: Stack, settings: Settings) -> AsyncIterator[Clinic]:
    """A clinic whose Redis was stopped."""
    async with (
        private_redis(stack) as redis,
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        clinic = await open_clinic(client, parts)
        await redis.stop()
        yield clinic


async def test_with_redis_away_the_answers_are_the_same(clinic_without_redis: Clinic) -> None:
    clinic = clinic_without_redis
    assert await clinic.starts() == HALF_HOURS
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    assert await clinic.starts() == HALF_HOURS[2:]
    refused = await clinic.book(uuid4(), clinic.at("09:30"))
    assert (refused.status_code, refused.json()["code"]) == (409, "slot_taken")
    assert (await clinic.book(uuid4(), clinic.at("10:10"))).status_code == 422
    assert moment(booked["starts_at"]) == moment(clinic.at("09:00"))


async def test_availability_needs_a_token(clinic: Clinic) -> None:
    answer = await clinic.api.get(f"{BASE}/availability", params={"service_id": str(clinic.service_id)})
    assert answer.status_code == 401


async def test_hours_across_a_switch_are_in_the_workers_zone(api: httpx.AsyncClient, parts: Parts) -> None:
    """The next night in New York with a repeated hour."""
    zone = "America/New_York"
    clinic = await open_clinic(api, parts, zone=zone, horizon_days=730, slot_step_minutes=60)
    night = next_switch(zone, back=True)
    weekday = night.isoweekday()
    await clinic.call(
        "PUT",
        f"/workers/{clinic.worker_id}/rules",
        [{"weekday": weekday, "start": "00:00", "end": "03:00"}],
    )
    midnight = datetime.combine(night, datetime.min.time(), ZoneInfo(zone))
    query = {"from_": midnight.isoformat(), "to": (midnight + timedelta(days=1)).isoformat()}
    found = (await ask(clinic, time_zone=zone, **query)).json()["slots"]
    assert [slot["starts_at"][11:] for slot in found] == [
        "00:00:00-04:00",
        "01:00:00-04:00",
        "01:00:00-05:00",
        "02:00:00-05:00",
    ]
    both = [await clinic.booked(uuid4(), slot["starts_at"]) for slot in found[1:3]]
    assert {one["local_starts_at"] for one in both} == {f"{night}T01:00:00"}
