"""Calendar files of appointments for their parties, and secret links to workers' calendars."""

from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import httpx
import icalendar
import pytest
from structlog.testing import capture_logs

from catraca.domains.scheduling.calendars.service import AHEAD, BACK
from catraca.domains.scheduling.calendars.store import appointments_around
from catraca.domains.scheduling.shared.model import SubjectNo
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.past_appointments import move_back
from tests.support.http import served

TYPE = "text/calendar; charset=utf-8"


async def file_of(clinic: Clinic, headers: dict[str, str], appointment_id: object) -> httpx.Response:
    return await clinic.api.get(f"{BASE}/appointments/{appointment_id}/calendar.ics", headers=headers)


async def event_of(clinic: Clinic, client: UUID, appointment_id: object) -> icalendar.Event:
    answer = await file_of(clinic, bearer("passenger", client), appointment_id)
    assert (answer.status_code, answer.headers["content-type"]) == (200, TYPE)
    (event,) = icalendar.Calendar.from_ical(answer.content).events  # type: ignore[attr-defined]
    return event


async def link(clinic: Clinic, headers: dict[str, str] | None = None) -> str:
    """Create a link to the calendar of the clinic's worker; returns its path."""
    answer = await clinic.api.post(
        f"{BASE}/workers/{clinic.worker_id}/calendar-link",
        headers=headers or bearer("operator", clinic.operator),
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["path"]


async def feed(clinic: Clinic, path: str) -> dict[str, dict[str, Any]]:
    """The entries of the calendar, by appointment."""
    answer = await clinic.api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, TYPE)
    events = icalendar.Calendar.from_ical(answer.content).events  # type: ignore[attr-defined]
    return {event["uid"].removesuffix("@catraca"): event for event in events}


async def test_a_file_is_for_the_appointments_parties(clinic: Clinic) -> None:
    client, doctor = uuid4(), uuid4()
    assert (await clinic.api.get("/v1/me", headers=bearer("worker", doctor))).status_code == 200
    worker_id = await clinic.worker(user_id=str(doctor))
    booked = await clinic.booked(client, clinic.at("09:00"), worker_id=worker_id)
    event = await event_of(clinic, client, booked["appointment_id"])
    assert event.decoded("dtstart") == moment(clinic.at("09:00"))
    assert event.decoded("dtend") == moment(clinic.at("10:00"))
    assert event["summary"] == "Consulta - Ana"
    statuses = [
        (await file_of(clinic, headers, booked["appointment_id"])).status_code
        for headers in (
            bearer("worker", doctor),
            bearer("operator"),
            bearer("passenger"),
            bearer("worker"),
            {},
        )
    ]
    assert statuses == [200, 200, 404, 404, 401]
    assert (await file_of(clinic, bearer("operator"), uuid4())).status_code == 404


async def test_changed_appointment_keeps_uid_and_raises_sequence(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    appointment_id = booked["appointment_id"]
    seen = [await event_of(clinic, client, appointment_id)]
    for verb, body in (
        ("reschedule", {"starts_at": clinic.at("13:00")}),
        ("confirm", {}),
        ("reschedule", {"starts_at": clinic.at("14:00", days=1)}),
        ("cancel", {}),
    ):
        assert (await clinic.act(client, appointment_id, verb, **body)).status_code == 200
        seen.append(await event_of(clinic, client, appointment_id))
    assert {event["uid"] for event in seen} == {f"{appointment_id}@catraca"}
    sequences = [event["sequence"] for event in seen]
    assert sequences == sorted(set(sequences)), "each sequence is higher than the last"
    stamps = [event.decoded("dtstamp") for event in seen]
    assert stamps == sorted(stamps)
    assert seen[1].decoded("dtstart") == moment(clinic.at("13:00"))
    assert [event["status"] for event in seen] == [*["CONFIRMED"] * 4, "CANCELLED"]


async def test_a_hold_is_in_no_calendar(clinic: Clinic) -> None:
    client = uuid4()
    held = (await clinic.hold(client, clinic.at("09:00"))).json()
    assert (await file_of(clinic, bearer("passenger", client), held["hold_id"])).status_code == 404
    assert await feed(clinic, await link(clinic)) == {}
    await clinic.let_lapse(held["hold_id"])
    await clinic.booked(uuid4(), clinic.at("09:00"))
    assert (await file_of(clinic, bearer("passenger", client), held["hold_id"])).status_code == 404


async def test_a_workers_calendar_is_read_by_its_address_alone(clinic: Clinic) -> None:
    room = await clinic.room("Sala Azul")
    await clinic.rooms_for(clinic.service_id, room)
    walk_in = {"name": "Maria Souza", "contact": "+5571987654321"}
    booked = await clinic.api.post(
        f"{BASE}/appointments",
        json=clinic.wish(clinic.at("09:00"), client=walk_in),
        headers=bearer("operator", clinic.operator),
    )
    assert booked.status_code == 201, booked.text
    other = await clinic.worker()
    await clinic.booked(uuid4(), clinic.at("11:00"), worker_id=other)
    path = await link(clinic)
    found = await feed(clinic, path)
    assert list(found) == [booked.json()["appointment_id"]], "no other worker's appointments"
    (event,) = found.values()
    assert (event["summary"], event["location"]) == ("Consulta", "Sala Azul")
    answer = await clinic.api.get(path)
    assert not [part for part in (*walk_in.values(), "Souza") if part in answer.text]
    assert "X-WR-CALNAME:Ana\r\n" in answer.text


async def test_a_new_feed_link_replaces_the_old_one(
    clinic: Clinic,
) -> None:
    doctor = uuid4()
    as_doctor = bearer("worker", doctor)
    assert (await clinic.api.get("/v1/me", headers=as_doctor)).status_code == 200
    own = Clinic(
        clinic.api, clinic.parts, clinic.operator, await clinic.worker(user_id=str(doctor)), clinic.service_id
    )
    first = await link(own, as_doctor)
    assert await feed(own, first) == {}
    second = await link(own)
    assert (await clinic.api.get(first)).status_code == 404
    assert await feed(own, second) == {}
    path = f"{BASE}/workers/{own.worker_id}/calendar-link"
    for headers in (bearer("worker"), bearer("passenger", doctor), bearer("driver")):
        assert (await clinic.api.post(path, headers=headers)).status_code == 403
        assert (await clinic.api.delete(path, headers=headers)).status_code == 403
    for _ in range(2):
        assert (await clinic.api.delete(path, headers=as_doctor)).status_code == 204
    assert (await clinic.api.get(second)).status_code == 404
    unknown = f"{BASE}/workers/{uuid4()}/calendar-link"
    assert (await clinic.api.post(unknown, headers=bearer("operator"))).status_code == 404
    assert (await clinic.api.delete(unknown, headers=bearer("operator"))).status_code == 404
    audited = await clinic.sql(
        "SELECT action, actor_id FROM audit_log"
        " WHERE subject_id = $1 AND action LIKE 'worker.calendar%' ORDER BY id",
        str(own.worker_id),
    )
    assert [tuple(row.values()) for row in audited] == [
        ("worker.calendar_linked", doctor),
        ("worker.calendar_linked", clinic.operator),
        ("worker.calendar_unlinked", doctor),
        ("worker.calendar_unlinked", doctor),
    ]


async def test_the_feed_secret_is_shown_once_and_not_stored(clinic: Clinic) -> None:
    headers = bearer("operator", clinic.operator) | {"idempotency-key": "calendar"}
    first, second = await link(clinic, headers), await link(clinic, headers)
    assert first != second, "a repeat makes a new link: the response was not stored"
    secret = second.removeprefix(f"{BASE}/calendars/").removesuffix(".ics")
    assert len(secret) == 43  # 256 bits
    (row,) = await clinic.sql(
        "SELECT s::text AS row, feed_hash FROM subjects s WHERE id = $1", clinic.worker_id
    )
    assert row["feed_hash"] == sha256(secret.encode()).digest()
    kept = await clinic.sql(
        "SELECT convert_from(body, 'UTF8') AS body FROM idempotency_keys WHERE body IS NOT NULL"
    )
    audited = await clinic.sql(
        "SELECT a::text AS row FROM audit_log a WHERE subject_id = $1", str(clinic.worker_id)
    )
    everything = [row["row"], *(one["body"] for one in kept), *(one["row"] for one in audited)]
    assert not [text for text in everything if secret in text]


async def test_feed_secret_is_in_no_log_and_no_metric(clinic: Clinic) -> None:
    path = await link(clinic)
    gone = await link(clinic)
    await clinic.call("DELETE", f"/workers/{clinic.worker_id}/calendar-link")
    with capture_logs() as logs:
        for one in (path, gone):
            assert (await clinic.api.get(one)).status_code == 404
        path = await link(clinic)
        assert (await clinic.api.get(path)).status_code == 200
    route = f"{BASE}/calendars/{{token}}.ics"
    assert [entry["route"] for entry in logs if entry["status"] == 404] == [route, route]
    figures = (await clinic.api.get("/metrics")).text
    assert f'route="{route}"' in figures
    for one in (path, gone):
        secret = one.removeprefix(f"{BASE}/calendars/").removesuffix(".ics")
        assert secret not in str(logs)
        assert secret not in figures


async def test_unknown_and_revoked_feed_links_get_the_same_answer(clinic: Clinic) -> None:
    ended = await link(clinic)
    await link(clinic)
    answers = [
        await clinic.api.get(path)
        for path in (ended, f"{BASE}/calendars/{'A' * 43}.ics", f"{BASE}/calendars/x.ics")
    ]
    assert {answer.status_code for answer in answers} == {404}
    problems = [answer.json() | {"request_id": None} for answer in answers]
    assert problems[0] == problems[1] == problems[2]
    assert ended.split("/")[-1] not in answers[0].text


async def test_a_calendar_goes_from_a_month_ago_to_a_year_ahead(clinic: Clinic) -> None:
    far = await clinic.service(horizon_days=730)
    await clinic.serves(clinic.worker_id, clinic.service_id, far)
    ids: dict[str, str] = {}
    for name, days, back in (
        ("last week", 0, 10),
        ("a month ago", 0, 32),
        ("long ago", 0, 36),
        ("in a year", 355, 0),
        ("later", 370, 0),
    ):
        booked = await clinic.booked(uuid4(), clinic.at("09:00", days=days), service_id=far)
        ids[booked["appointment_id"]] = name
        if back:
            await move_back(clinic, booked["appointment_id"], days=back)
    found = await feed(clinic, await link(clinic))
    assert [ids[one] for one in found] == ["a month ago", "last week", "in a year"], "in order"


async def test_canceled_appointments_stay_in_the_feed_for_a_month(clinic: Clinic) -> None:
    client = uuid4()
    lately, earlier = [
        (await clinic.booked(client, clinic.at(clock)))["appointment_id"] for clock in ("09:00", "11:00")
    ]
    for one in (lately, earlier):
        await clinic.act(client, one, "cancel")
    await clinic.sql(
        "UPDATE appointments SET changed_at = changed_at - interval '31 days' WHERE id = $1", UUID(earlier)
    )
    found = await feed(clinic, await link(clinic))
    assert {one: event["status"] for one, event in found.items()} == {lately: "CANCELLED"}


async def test_calendar_is_limited_to_the_nearest_appointments(clinic: Clinic) -> None:
    booked = [
        (await clinic.booked(uuid4(), clinic.at(f"{hour:02}:00")))["appointment_id"] for hour in (9, 10, 11)
    ]
    (row,) = await clinic.sql("SELECT no FROM subjects WHERE id = $1", clinic.worker_id)
    async with clinic.parts.database.connection() as db:
        found = await appointments_around(db, SubjectNo(row["no"]), back=BACK, ahead=AHEAD, limit=2)
    assert [str(one.id) for one in found] == booked[:2], "the nearest"


async def test_unchanged_calendar_is_not_sent_again(clinic: Clinic) -> None:
    path = await link(clinic)
    first = await clinic.api.get(path)
    assert first.headers["cache-control"] == "private, no-cache"
    headers = {"if-none-match": first.headers["etag"]}
    same = await clinic.api.get(path, headers=headers)
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    await clinic.booked(uuid4(), clinic.at("09:00"))
    changed = await clinic.api.get(path, headers=headers)
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


async def test_feed_readers_count_as_anonymous_callers(clinic: Clinic) -> None:
    path = await link(clinic)
    async with (
        served(clinic.parts, rate_limit_anonymous="3/hour") as here,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{here.port}",
            # A private address: requests of other tests are not counted.
            transport=httpx.AsyncHTTPTransport(local_address="127.0.0.9"),
        ) as api,
    ):
        statuses = [(await api.get(path)).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


@pytest.mark.parametrize("token", ["%00", "a%2Fb", "..", "%FF"])
async def test_odd_addresses_are_refused_and_not_a_fault(clinic: Clinic, token: str) -> None:
    answer = await clinic.api.get(f"{BASE}/calendars/{token}.ics")
    assert 400 <= answer.status_code < 500
