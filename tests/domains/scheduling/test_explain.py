"""The reasons why a time is not offered, with their details."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import httpx
import pytest

from catraca.platform.texts import LANGUAGES, text
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, BASE, Clinic, moment, open_clinic
from tests.domains.scheduling.clocks import next_switch

STRANGER = "passenger"


async def explain(
    clinic: Clinic, starts_at: str, *, by: dict[str, str] | None = None, language: str = "en", **query: Any
) -> dict[str, Any]:
    """Explain a time as another passenger, by default for the clinic's worker; None for all workers."""
    params = {
        "service_id": clinic.service_id,
        "worker_id": clinic.worker_id,
        "starts_at": starts_at,
        **query,
    }
    answer = await clinic.api.get(
        f"{BASE}/availability/explain",
        params={name: str(value) for name, value in params.items() if value is not None},
        headers=(by or bearer(STRANGER, uuid4())) | {"accept-language": language},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def reasons(clinic: Clinic, starts_at: str, **more: Any) -> dict[str, dict[str, Any]]:
    """The reasons of the only worker, by code, as an operator gets them."""
    report = await explain(clinic, starts_at, **{"by": of_operator(clinic), **more})
    (worker,) = report["workers"]
    assert report["offered"] == worker["offered"] == (not worker["reasons"])
    return {reason.pop("code"): reason for reason in worker["reasons"]}


def of_operator(clinic: Clinic) -> dict[str, str]:
    return bearer("operator", clinic.operator)


async def terms(clinic: Clinic, **changed: Any) -> None:
    body = {"name": "Consulta", "duration_minutes": 60, "slot_step_minutes": 30, **changed}
    await clinic.call("PUT", f"/services/{clinic.service_id}", body)


async def test_an_offered_slot_has_no_reasons(clinic: Clinic) -> None:
    report = await explain(clinic, clinic.at("09:00"))
    assert report["offered"]
    assert report["reasons"] == []
    assert report["workers"] == [
        {
            "worker_id": str(clinic.worker_id),
            "time_zone": "UTC",
            "local_starts_at": moment(clinic.at("09:00")).isoformat().replace("+00:00", "Z"),
            "offered": True,
            "reasons": [],
            "notes": [],
        }
    ]
    assert moment(report["alternatives"][0]["starts_at"]) == moment(clinic.at("09:00"))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_reason_has_words_in_the_callers_language(clinic: Clinic, language: str) -> None:
    await terms(clinic, min_notice_minutes=6 * 1440)
    found = await reasons(clinic, clinic.at("07:10"), language=language)
    assert list(found) == ["too_soon", "outside_hours"]
    for code, reason in found.items():
        assert reason["message"] == text(f"scheduling.{code}", language)  # type: ignore[arg-type]


async def test_too_soon_names_the_earliest_bookable_time(clinic: Clinic) -> None:
    await terms(clinic, min_notice_minutes=6 * 1440)
    before = datetime.now(UTC)
    found = await reasons(clinic, clinic.at("09:00"))
    earliest = datetime.fromisoformat(found["too_soon"]["earliest"]) - timedelta(days=6)
    assert before - timedelta(minutes=5) < earliest < datetime.now(UTC) + timedelta(minutes=5)


async def test_beyond_the_horizon_names_the_last_bookable_time(api: httpx.AsyncClient, parts: Parts) -> None:
    """Days are counted in the worker's zone."""
    clinic = await open_clinic(api, parts, zone="America/New_York", horizon_days=2)
    found = await reasons(clinic, clinic.at("17:00", days=1), time_zone=clinic.zone)
    latest = datetime.fromisoformat(found["beyond_horizon"]["latest"])
    now = datetime.now(ZoneInfo(clinic.zone))
    assert abs(latest.replace(tzinfo=None) - now.replace(tzinfo=None) - timedelta(days=2)) < timedelta(
        minutes=5
    )


async def test_outside_hours_lists_the_hours_of_that_day(clinic: Clinic) -> None:
    night = [{"weekday": weekday, "start": "22:00", "end": "02:00"} for weekday in range(1, 8)]
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", [*ALL_WEEK, *night])
    day = (await reasons(clinic, clinic.at("17:30")))["outside_hours"]["day"]
    assert day["day"] == str(clinic.day)
    assert "closed_by" not in day
    worked = [(moment(shift["starts_at"]), moment(shift["ends_at"])) for shift in day["shifts"]]
    # With the shift of the night before and that of the night after.
    assert worked == [
        (moment(clinic.at("22:00", days=-1)), moment(clinic.at("02:00"))),
        (moment(clinic.at("09:00")), moment(clinic.at("18:00"))),
        (moment(clinic.at("22:00")), moment(clinic.at("02:00", days=1))),
    ]


async def test_a_closed_day_names_its_cause(clinic: Clinic) -> None:
    closed = [{"day": str(clinic.day), "shifts": []}]
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", closed)
    day = (await reasons(clinic, clinic.at("09:00")))["outside_hours"]["day"]
    assert day == {"day": str(clinic.day), "shifts": [], "closed_by": "override"}
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", [])
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", [])
    day = (await reasons(clinic, clinic.at("09:00")))["outside_hours"]["day"]
    assert day == {"day": str(clinic.day), "shifts": [], "closed_by": "no_rule"}


async def test_a_holiday_has_its_name(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, zone="America/Sao_Paulo", horizon_days=730)
    body = {"name": "Ana", "time_zone": clinic.zone, "holidays": {"country": "BR", "state": "SP"}}
    await clinic.call("PUT", f"/workers/{clinic.worker_id}", body)
    today = datetime.now(ZoneInfo(clinic.zone)).date()
    christmas = today.replace(month=12, day=25)
    if christmas <= today:
        christmas = christmas.replace(year=today.year + 1)
    at_nine = datetime(christmas.year, 12, 25, 9, tzinfo=ZoneInfo(clinic.zone)).isoformat()
    for language, name in (("pt-BR", "Natal"), ("en", "Christmas Day")):
        day = (await reasons(clinic, at_nine, language=language))["outside_hours"]["day"]
        assert day == {"day": str(christmas), "shifts": [], "closed_by": "holiday", "holiday": name}
    answer = await clinic.book(uuid4(), at_nine)
    assert answer.json()["faults"] == ["outside_hours"]


async def test_hours_in_a_clock_gap_are_explained(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic, night, worked = await _in_new_york(api, parts, "02:00", "03:00", back=False)
    day = (await reasons(clinic, f"{night}T03:00:00-04:00"))["outside_hours"]["day"]
    assert worked == 0
    assert day == {"day": night, "shifts": [], "closed_by": "clocks"}


async def test_off_grid_names_the_grid_times_around(clinic: Clinic) -> None:
    found = (await reasons(clinic, clinic.at("10:10")))["off_grid"]
    assert [moment(found[name]) for name in ("before", "after")] == [
        moment(clinic.at("10:00")),
        moment(clinic.at("10:30")),
    ]
    # At 17:30 the day is too short for the service, so the next time is on the next day.
    await terms(clinic, slot_step_minutes=30, duration_minutes=40)
    found = (await reasons(clinic, clinic.at("17:10")))["off_grid"]
    assert [moment(found[name]) for name in ("before", "after")] == [
        moment(clinic.at("17:00")),
        moment(clinic.at("09:00", days=1)),
    ]


async def test_times_are_shown_in_the_requested_zone(clinic: Clinic) -> None:
    report = await explain(clinic, clinic.at("10:10"), time_zone="Asia/Kolkata", by=of_operator(clinic))
    (worker,) = report["workers"]
    assert worker["reasons"][0]["before"].endswith("T15:30:00+05:30")
    assert report["alternatives"][0]["starts_at"].endswith("+05:30")
    assert worker["local_starts_at"].endswith("T10:10:00Z")


async def test_blockers_are_shown_only_to_authorised_callers(clinic: Clinic) -> None:
    anas = uuid4()
    ana = await clinic.worker(user_id=str(await _new_user(clinic, anas)))
    booked = await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=ana)
    off = {"starts_at": clinic.at("10:00"), "ends_at": clinic.at("11:00"), "reason": "Dentista"}
    time_off = await clinic.call("POST", f"/workers/{ana}/time-off", off)
    at_half_past = clinic.at("09:30")
    way = {"appointments": [booked["appointment_id"]], "time_off": [time_off["time_off_id"]]}
    for by in (of_operator(clinic), bearer("worker", anas)):
        found = await reasons(clinic, at_half_past, worker_id=ana, by=by)
        assert found["busy"]["in_the_way"] == way
    for by in (bearer("passenger", uuid4()), bearer("worker", uuid4()), bearer("passenger", anas)):
        found = await reasons(clinic, at_half_past, worker_id=ana, by=by)
        assert found == {"busy": {"message": text("scheduling.busy", "en")}}
    # A colleague who asks about all workers does not see Ana's details either.
    report = await explain(clinic, at_half_past, worker_id=None, by=bearer("worker", uuid4()))
    assert booked["appointment_id"] not in str(report)
    assert time_off["time_off_id"] not in str(report)


async def _new_user(clinic: Clinic, user_id: UUID) -> UUID:
    """Add the user, by a first request."""
    answer = await clinic.api.get("/v1/me", headers=bearer("worker", user_id))
    assert answer.status_code == 200, answer.text
    return user_id


async def test_time_off_and_a_client_look_alike_to_strangers(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    off = {"starts_at": clinic.at("11:00"), "ends_at": clinic.at("12:00"), "reason": "Dentista"}
    await clinic.call("POST", f"/workers/{clinic.worker_id}/time-off", off)
    stranger = bearer(STRANGER, uuid4())
    nine, eleven = [await reasons(clinic, clinic.at(clock), by=stranger) for clock in ("09:00", "11:00")]
    assert nine == eleven


async def test_a_full_group_and_taken_rooms_are_explained(clinic: Clinic) -> None:
    await terms(clinic, capacity=2)
    room = await clinic.room()
    await clinic.rooms_for(clinic.service_id, room)
    both = [await clinic.booked(uuid4(), clinic.at("09:00")) for _ in range(2)]
    ids = sorted(one["appointment_id"] for one in both)
    found = await reasons(clinic, clinic.at("09:00"), by=of_operator(clinic))
    assert sorted(found["full"]["in_the_way"]["appointments"]) == ids
    other = await clinic.worker()
    found = await reasons(clinic, clinic.at("09:00"), worker_id=other, by=of_operator(clinic))
    assert sorted(found["no_room"]["in_the_way"]["appointments"]) == ids
    assert await reasons(clinic, clinic.at("09:00"), worker_id=other, by=bearer(STRANGER, uuid4())) == {
        "no_room": {"message": text("scheduling.no_room", "en")}
    }


async def test_each_worker_has_reasons_of_their_own(clinic: Clinic) -> None:
    other = await clinic.worker(rules=[])
    await clinic.booked(uuid4(), clinic.at("09:00"))
    report = await explain(clinic, clinic.at("09:00"), worker_id=None)
    found = {one["worker_id"]: [reason["code"] for reason in one["reasons"]] for one in report["workers"]}
    assert found == {str(clinic.worker_id): ["busy"], str(other): ["outside_hours"]}
    assert not report["offered"]
    free = await clinic.worker()
    report = await explain(clinic, clinic.at("09:00"), worker_id=None)
    assert report["offered"]
    assert [one["offered"] for one in report["workers"] if one["worker_id"] == str(free)] == [True]


async def test_a_service_without_workers_is_explained(clinic: Clinic) -> None:
    nobodys = await clinic.service()
    gone = await clinic.worker()
    body = {"name": "Ana", "time_zone": "UTC", "retired": True}
    await clinic.call("PUT", f"/workers/{gone}", body)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("no_worker", {"service_id": nobodys, "worker_id": None}),
        ("not_their_service", {"service_id": nobodys}),
        ("worker_retired", {"worker_id": gone}),
    ]
    for code, query in asked:
        for language in LANGUAGES:
            report = await explain(clinic, clinic.at("09:00"), language=language, **query)
            assert (report["offered"], report["workers"], report["alternatives"]) == (False, [], [])
            assert report["reasons"] == [{"code": code, "message": text(f"scheduling.{code}", language)}]
    await terms(clinic, retired=True)
    report = await explain(clinic, clinic.at("09:00"))
    assert [reason["code"] for reason in report["reasons"]] == ["service_retired"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_repeated_local_time_is_noted_with_both_moments(
    api: httpx.AsyncClient, parts: Parts, language: str
) -> None:
    clinic, night, _ = await _in_new_york(api, parts, "00:00", "03:00", back=True)
    first, second = f"{night}T01:30:00-04:00", f"{night}T01:30:00-05:00"
    for asked in (first, second, datetime.fromisoformat(second).astimezone(UTC).isoformat()):
        report = await explain(clinic, asked, language=language)
        assert report["offered"]
        (note,) = report["workers"][0]["notes"]
        assert (note["code"], note["moments"]) == ("clocks_repeat", [first, second])
        assert note["message"] == text("scheduling.clocks_repeat", language, {"time": "01:30"})  # type: ignore[arg-type]
    assert (await explain(clinic, f"{night}T02:00:00-05:00"))["workers"][0]["notes"] == []


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_nonexistent_local_time_is_noted_with_its_substitute(
    api: httpx.AsyncClient, parts: Parts, language: str
) -> None:
    clinic, night, worked = await _in_new_york(api, parts, "01:00", "05:00", back=False)
    assert worked == 3
    report = await explain(clinic, f"{night}T02:30:00-05:00", language=language)
    (note,) = report["workers"][0]["notes"]
    assert (note["code"], note["moments"]) == ("clocks_skip", [f"{night}T03:30:00-04:00"])
    values = {"time": "02:30", "shown": "03:30"}
    assert note["message"] == text("scheduling.clocks_skip", language, values)  # type: ignore[arg-type]
    assert report["workers"][0]["local_starts_at"] == f"{night}T03:30:00-04:00"
    # 02:30 in London is another local time in New York.
    assert (await explain(clinic, f"{night}T02:30:00Z"))["workers"][0]["notes"] == []
    assert (await explain(clinic, f"{night}T03:30:00-04:00"))["workers"][0]["notes"] == []


async def _in_new_york(
    api: httpx.AsyncClient, parts: Parts, start: str, end: str, *, back: bool
) -> tuple[Clinic, str, int]:
    """A clinic with these hours in the night of the next clock change; the day; and its hours."""
    zone = "America/New_York"
    clinic = await open_clinic(api, parts, zone=zone, horizon_days=730)
    night = next_switch(zone, back=back)
    rules = [{"weekday": night.isoweekday(), "start": start, "end": end}]
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", rules)
    midnight = datetime(night.year, night.month, night.day, tzinfo=ZoneInfo(zone))
    query = {"from": midnight.isoformat(), "to": (midnight + timedelta(days=1)).isoformat()}
    starts = await clinic.slots(**query)
    return clinic, str(night), (len(starts) + 1) // 2


async def test_explain_of_unknown_ids_is_not_found(clinic: Clinic) -> None:
    for query in ({"service_id": uuid4()}, {"worker_id": uuid4()}):
        params = {"service_id": clinic.service_id, "starts_at": clinic.at("09:00"), **query}
        answer = await clinic.api.get(
            f"{BASE}/availability/explain",
            params={name: str(value) for name, value in params.items()},
            headers=bearer(STRANGER, uuid4()),
        )
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_expired_hold_blocks_no_slot(clinic: Clinic) -> None:
    held = await clinic.hold(uuid4(), clinic.at("09:00"))
    assert "busy" in await reasons(clinic, clinic.at("09:00"))
    await clinic.let_lapse(held.json()["hold_id"])
    assert await reasons(clinic, clinic.at("09:00")) == {}
