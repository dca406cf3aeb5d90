"""Workers, hours, time off, services and rooms over HTTP."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, Clinic, moment, service_body


async def hours(clinic: Clinic) -> dict[str, Any]:
    return await clinic.call("GET", f"/workers/{clinic.worker_id}/hours")


async def test_a_worker_is_made_changed_and_seen(clinic: Clinic) -> None:
    body = {"name": "Bia Lima", "time_zone": "America/Bahia", "holidays": {"country": "BR", "state": "BA"}}
    made = await clinic.call("POST", "/workers", body)
    assert made == {"worker_id": made["worker_id"], "retired": False, **body}
    path = f"/workers/{made['worker_id']}"
    change = {"name": "Beatriz Lima", "time_zone": "America/Recife", "holidays": None, "retired": True}
    changed = await clinic.call("PUT", path, change)
    assert changed == {"worker_id": made["worker_id"], "outside": [], **change}
    seen = await clinic.send("GET", path, by=bearer())
    assert seen.json() == {name: value for name, value in changed.items() if name != "outside"}
    assert (await clinic.send("PUT", f"/workers/{uuid4()}", change)).status_code == 404
    assert (await clinic.send("GET", f"/workers/{uuid4()}")).status_code == 404


async def test_account_must_exist_and_belongs_to_one_worker(clinic: Clinic) -> None:
    account = uuid4()
    body = {"name": "Ana", "time_zone": "UTC", "user_id": str(account)}
    assert (await clinic.send("POST", "/workers", body)).status_code == 404
    await clinic.api.get("/v1/me", headers=bearer("worker", account))
    answers = await asyncio.gather(*(clinic.send("POST", "/workers", body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert {answer.json().get("code") for answer in answers} == {None, "worker_taken"}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"time_zone": "Bahia"}, "time_zone_unknown"),
        ({"time_zone": "../etc/passwd"}, "time_zone_unknown"),
        ({"holidays": {"country": "ZZ"}}, "holidays_unknown"),
        ({"holidays": {"country": "BR", "state": "XX"}}, "holidays_unknown"),
    ],
)
async def test_unknown_zone_or_country_is_refused(clinic: Clinic, wrong: dict[str, Any], code: str) -> None:
    body = {"name": "Ana", "time_zone": "UTC", **wrong}
    for method, path in (("POST", "/workers"), ("PUT", f"/workers/{clinic.worker_id}")):
        answer = await clinic.send(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (422, code)


async def test_an_overnight_shift_goes_on_into_the_next_day(clinic: Clinic) -> None:
    rules = [{"weekday": day, "start": "22:00", "end": "06:00"} for day in range(1, 8)]
    answer = await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", rules)
    assert [(rule["start"], rule["end"]) for rule in answer["rules"]] == [("22:00", "06:00")] * 7
    assert answer == await hours(clinic)
    assert await clinic.starts() == [
        *(f"{hour:02}:{minute}" for hour in range(5) for minute in ("00", "30")),
        "05:00",
        *(f"{hour}:{minute}" for hour in (22, 23) for minute in ("00", "30")),
    ]
    await clinic.booked(uuid4(), clinic.at("23:30"))
    assert (await clinic.book(uuid4(), clinic.at("00:00", days=1))).status_code == 409
    await clinic.booked(uuid4(), clinic.at("05:00", days=1))


async def test_rules_are_returned_as_sent(clinic: Clinic) -> None:
    rules = [
        {"weekday": 1, "start": "00:00", "end": "24:00", "valid_from": None, "valid_to": None},
        {"weekday": 3, "start": "09:00", "end": "12:00", "valid_from": "2026-01-01", "valid_to": None},
        {"weekday": 3, "start": "13:30", "end": "18:00", "valid_from": None, "valid_to": "2026-12-31"},
        {"weekday": 7, "start": "09:00", "end": "09:00", "valid_from": None, "valid_to": None},
    ]
    answer = await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", rules)
    assert answer["rules"] == rules
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", [])
    assert await clinic.starts() == []


async def test_changed_hours_report_bookings_outside_and_keep_them(clinic: Clinic) -> None:
    client = uuid4()
    kept, *outside = [await clinic.booked(client, clinic.at(clock)) for clock in ("09:00", "13:00", "16:30")]
    canceled = await clinic.booked(client, clinic.at("15:00"))
    await clinic.act(client, canceled["appointment_id"], "cancel")
    ids = [one["appointment_id"] for one in outside]
    mornings = [{**rule, "end": "12:00"} for rule in ALL_WEEK]
    changed = await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", mornings)
    assert changed["outside"] == ids
    override = {"day": str(clinic.day), "shifts": [{"start": "13:00", "end": "14:00"}]}
    changed = await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", [override])
    assert changed["outside"] == [kept["appointment_id"], ids[1]]
    tokyo = {"name": "Ana", "time_zone": "Asia/Tokyo"}
    assert len((await clinic.call("PUT", f"/workers/{clinic.worker_id}", tokyo))["outside"]) == 3
    for one in (kept, *outside):
        assert await clinic.call("GET", f"/appointments/{one['appointment_id']}") == one
    retired = {"name": "Ana", "time_zone": "UTC", "retired": True}
    changed = await clinic.call("PUT", f"/workers/{clinic.worker_id}", retired)
    assert changed["outside"] == [kept["appointment_id"], *ids]


async def test_an_override_replaces_the_hours_of_its_day(clinic: Clinic) -> None:
    path = f"/workers/{clinic.worker_id}/overrides"
    shifts = [{"start": "07:00", "end": "08:30"}, {"start": "20:00", "end": "21:00"}]
    body = [{"day": str(clinic.day), "shifts": shifts}]
    assert (await clinic.call("PUT", path, body))["overrides"] == body
    assert await clinic.starts() == ["07:00", "07:30", "20:00"]
    twice = [{"day": str(clinic.day), "shifts": [shift]} for shift in shifts]
    assert (await clinic.call("PUT", path, twice))["overrides"] == body, "equal days are merged"
    await clinic.call("PUT", path, [{"day": str(clinic.day), "shifts": []}])
    assert await clinic.starts() == []
    assert await clinic.starts(days=2) != [], "the next day has its weekday's hours"
    await clinic.call("PUT", path, [])
    assert (await clinic.starts())[0] == "09:00"


async def test_public_holidays_are_days_off_unless_overridden(clinic: Clinic) -> None:
    far = await clinic.service(horizon_days=730)
    worker_id = await clinic.worker(holidays={"country": "BR", "state": "BA"})
    await clinic.serves(worker_id, far)
    year = clinic.day.year + 1
    query = {"service_id": far, "worker_id": worker_id, "to": f"{year}-12-26T00:00:00Z"}
    christmas = {**query, "from": f"{year}-12-25T00:00:00Z"}
    assert await clinic.slots(**christmas) == []
    assert await clinic.slots(**{**query, "from": f"{year}-12-24T00:00:00Z"}) != []
    override = [{"day": f"{year}-12-25", "shifts": [{"start": "09:00", "end": "10:00"}]}]
    await clinic.call("PUT", f"/workers/{worker_id}/overrides", override)
    assert len(await clinic.slots(**christmas)) == 1


def off(clinic: Clinic, first: str, last: str, **more: str) -> dict[str, str]:
    return {"starts_at": clinic.at(first), "ends_at": clinic.at(last), **more}


async def test_workers_manage_only_their_own_agenda(clinic: Clinic) -> None:
    account = uuid4()
    by = bearer("worker", account)
    await clinic.api.get("/v1/me", headers=by)
    own = await clinic.worker(user_id=str(account))
    span = {"from_": clinic.at("00:00"), "to": clinic.at("23:00")}
    for worker_id, status in ((own, 200), (clinic.worker_id, 403)):
        path = f"/workers/{worker_id}"
        answers = [
            await clinic.send("GET", f"{path}/hours", by=by),
            await clinic.send("PUT", f"{path}/rules", ALL_WEEK, by=by),
            await clinic.send("PUT", f"{path}/overrides", [], by=by),
            await clinic.send("GET", f"{path}/time-off", by=by, **span),
        ]
        assert {answer.status_code for answer in answers} == {status}
        taken = await clinic.send("POST", f"{path}/time-off", off(clinic, "09:00", "10:00"), by=by)
        assert taken.status_code == (201 if status == 200 else 403)
    body = {"service_ids": []}
    assert (await clinic.send("PUT", f"/workers/{own}/services", body, by=by)).status_code == 403


async def test_services_of_a_worker_and_rooms_of_a_service_are_listed(clinic: Clinic) -> None:
    other = await clinic.service()
    await clinic.serves(clinic.worker_id, clinic.service_id, other)
    path = f"/workers/{clinic.worker_id}/services"
    assert set((await clinic.call("GET", path))["service_ids"]) == {str(clinic.service_id), str(other)}
    by_service = await clinic.call("GET", "/workers", service_id=other)
    assert [worker["worker_id"] for worker in by_service["workers"]] == [str(clinic.worker_id)]
    assert (await clinic.send("PUT", path, {"service_ids": [str(uuid4())]})).status_code == 404
    assert len((await clinic.call("GET", path))["service_ids"]) == 2, "a refused request changes nothing"
    room_id = await clinic.room()
    await clinic.rooms_for(other, room_id)
    rooms = f"/services/{other}/rooms"
    assert (await clinic.call("GET", rooms))["room_ids"] == [str(room_id)]
    wrong = {"room_ids": [str(clinic.worker_id)]}
    assert (await clinic.send("PUT", rooms, wrong)).status_code == 404, "a worker is not a room"
    assert (await clinic.send("PUT", f"/services/{uuid4()}/rooms", wrong)).status_code == 404


async def test_a_service_has_terms_that_count_from_now_on(clinic: Clinic) -> None:
    made = await clinic.call("POST", "/services", {"name": "Corte", "duration_minutes": 45})
    assert made == {
        "service_id": made["service_id"],
        "name": "Corte",
        "duration_minutes": 45,
        "buffer_before_minutes": 0,
        "buffer_after_minutes": 0,
        "min_notice_minutes": 0,
        "horizon_days": 60,
        "slot_step_minutes": 45,
        "capacity": 1,
        "retired": False,
    }
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    longer = service_body(duration_minutes=120)
    changed = await clinic.call("PUT", f"/services/{clinic.service_id}", longer)
    assert await clinic.call("GET", f"/services/{clinic.service_id}") == changed
    assert await clinic.call("GET", f"/appointments/{booked['appointment_id']}") == booked
    later = await clinic.booked(uuid4(), clinic.at("10:00"))
    assert moment(later["ends_at"]) - moment(later["starts_at"]) == timedelta(hours=2)


@pytest.mark.parametrize("kind", ["workers", "services", "rooms"])
async def test_lists_are_paged_and_leave_the_retired_out(clinic: Clinic, kind: str) -> None:
    bodies = {
        "workers": {"name": "Ana", "time_zone": "UTC"},
        "services": {"name": "Corte", "duration_minutes": 45},
        "rooms": {"name": "Sala"},
    }
    name = kind.removesuffix("s") + "_id"
    made = [(await clinic.call("POST", f"/{kind}", bodies[kind]))[name] for _ in range(3)]
    await clinic.call("PUT", f"/{kind}/{made[1]}", {**bodies[kind], "retired": True})

    async def listed(**query: object) -> list[str]:
        found: list[str] = []
        after: dict[str, object] = {}
        while True:
            page = (await clinic.send("GET", f"/{kind}", by=bearer(), limit=2, **query, **after)).json()
            assert len(page[kind]) <= 2
            found += [one[name] for one in page[kind]]
            if page["next"] is None:
                return [one for one in found if one in made]
            after = {"after": page["next"]}

    assert await listed() == [made[0], made[2]]
    assert await listed(retired=True) == made
    assert (await clinic.call("GET", f"/{kind}/{made[1]}"))["retired"] is True


EVERY_MONDAY = {"weekday": 1, "start": "09:00", "end": "10:00"}
MALFORMED = [
    ("PUT", "/workers/{worker}/rules", [EVERY_MONDAY | {"valid_from": 0}], "body.0.valid_from"),
    ("PUT", "/workers/{worker}/overrides", [{"day": "1796133600", "shifts": []}], "body.0.day"),
    ("POST", "/workers/{worker}/time-off", {"starts_at": 0, "ends_at": "1796133600"}, "body.starts_at"),
    ("POST", "/workers/{worker}/time-off", {"starts_at": 0, "ends_at": "1796133600"}, "body.ends_at"),
    ("GET", "/workers/{worker}/time-off?from=0&to=1796133600.5", None, "query.to"),
    ("PUT", "/workers/{worker}/rules", [{"weekday": 8, "start": "09:00", "end": "10:00"}], "body.0.weekday"),
    ("PUT", "/workers/{worker}/rules", [{"weekday": 1, "start": "24:00", "end": "10:00"}], "body.0.start"),
    ("PUT", "/workers/{worker}/rules", [{"weekday": 1, "start": "9:00", "end": "10:00"}], "body.0.start"),
    ("PUT", "/workers/{worker}/overrides", [{"day": "2026-02-30", "shifts": []}], "body.0.day"),
    ("POST", "/services", {"name": "x", "duration_minutes": 0}, "body.duration_minutes"),
    ("POST", "/services", {"name": "x", "duration_minutes": "60"}, "body.duration_minutes"),
    ("POST", "/services", {"name": "x", "duration_minutes": 60, "price": 1}, "body.price"),
    ("POST", "/rooms", {"name": "x", "retired": True}, "body.retired"),
    ("POST", "/holds", {"client": {"user_id": "x"}}, "body.service_id"),
]


@pytest.mark.parametrize(("method", "path", "body", "where"), MALFORMED)
async def test_a_malformed_body_is_refused_with_the_field(
    clinic: Clinic, method: str, path: str, body: object, where: str
) -> None:
    answer = await clinic.send(method, path.format(worker=clinic.worker_id), body)
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert where in [error["where"] for error in answer.json()["errors"]]


async def refusals(clinic: Clinic) -> dict[str, httpx.Response]:
    """One refusal of each kind of this domain, in the requested language."""
    worker, service = f"/workers/{clinic.worker_id}", str(clinic.service_id)
    rule = {
        "weekday": 1,
        "start": "09:00",
        "end": "10:00",
        "valid_from": "2026-02-01",
        "valid_to": "2026-01-01",
    }
    wish = clinic.wish(clinic.at("09:00"))
    return {
        "validity_ends_first": await clinic.send("PUT", f"{worker}/rules", [rule]),
        "moment_not_whole": await clinic.send(
            "POST", "/appointments", wish | {"starts_at": "2026-01-01T00:00:00.5Z"}
        ),
        "moment_implausible": await clinic.send(
            "POST", "/appointments", wish | {"starts_at": "1969-12-31T23:59:59Z"}
        ),
        "timezone_aware": await clinic.send(
            "POST", "/appointments", wish | {"starts_at": "2026-01-01T00:00:00"}
        ),
        "client_unclear": await clinic.send("POST", "/appointments", wish | {"client": {}}),
        "repeated": await clinic.send("PUT", f"{worker}/services", {"service_ids": [service, service]}),
        "range_invalid": await clinic.send("POST", f"{worker}/time-off", off(clinic, "10:00", "10:00")),
        "time_zone_unknown": await clinic.send("POST", "/workers", {"name": "x", "time_zone": "x"}),
        "slot_not_offered": await clinic.send("POST", "/appointments", clinic.wish(clinic.at("03:00"))),
    }


async def test_refusals_have_words_in_both_languages(clinic: Clinic) -> None:
    details: dict[str, dict[str, str]] = {}
    for language in ("en", "pt-BR"):
        clinic.api.headers["accept-language"] = language
        try:
            answers = await refusals(clinic)
        finally:
            clinic.api.headers["accept-language"] = "en"
        details[language] = {}
        for code, answer in answers.items():
            assert answer.status_code == 422, (code, answer.text)
            assert answer.headers["content-language"] == language
            (error,) = answer.json().get("errors") or [answer.json()]
            assert error["code"] == code
            details[language][code] = error.get("message") or error["detail"]
    for code, detail in details["en"].items():
        assert detail, code
        assert detail != details["pt-BR"][code], code
        assert "{" not in detail + details["pt-BR"][code], code


async def test_agenda_changes_are_audited_with_their_actor(clinic: Clinic) -> None:
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/overrides", [])
    taken = await clinic.call("POST", f"/workers/{clinic.worker_id}/time-off", off(clinic, "09:00", "10:00"))
    await clinic.call("DELETE", f"/workers/{clinic.worker_id}/time-off/{taken['time_off_id']}")
    rows = await clinic.sql(
        "SELECT action, actor_id FROM audit_log WHERE subject_id = $1 ORDER BY at", str(clinic.worker_id)
    )
    assert [row["action"] for row in rows] == [
        "worker.created",
        "worker.rules_set",
        "worker.services_set",
        "worker.overrides_set",
        "subject.time_off_taken",
        "subject.time_off_ended",
    ]
    assert {row["actor_id"] for row in rows} == {clinic.operator}
    assert UUID(taken["time_off_id"])
