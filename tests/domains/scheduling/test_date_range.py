"""Dates and moments of requests are from 1970-01-01 to 2199-12-31; the database refuses any other."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from catraca.domains import scheduling
from catraca.platform.database.invariants import check_invariants
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, Clinic, open_clinic
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts

# The last two are infinite for PostgreSQL.
OUT_OF_RANGE = ["1969-12-31", "2200-01-01", "0001-01-01", "9999-12-31"]


@pytest.mark.parametrize("day", OUT_OF_RANGE)
async def test_dates_out_of_range_are_refused_in_both_languages(clinic: Clinic, day: str) -> None:
    bodies = {
        "rules": [ALL_WEEK[0] | {"valid_from": day}, ALL_WEEK[0] | {"valid_to": day}],
        "overrides": [{"day": day, "shifts": []}],
    }
    for name, body in bodies.items():
        messages: set[str] = set()
        for language in ("en", "pt-BR"):
            by = bearer("operator", clinic.operator) | {"accept-language": language}
            answer = await clinic.send("PUT", f"/workers/{clinic.worker_id}/{name}", body, by=by)
            assert answer.status_code == 422, answer.text
            errors = answer.json()["errors"]
            assert [error["code"] for error in errors] == ["date_implausible"] * len(body)
            messages.add(errors[0]["message"])
        assert len(messages) == 2


@pytest.mark.parametrize("day", ["1970-01-01", "2199-12-31"])
async def test_first_and_last_day_are_stored_and_read(clinic: Clinic, day: str) -> None:
    path = f"/workers/{clinic.worker_id}"
    await clinic.call("PUT", f"{path}/rules", [ALL_WEEK[0] | {"valid_from": day, "valid_to": day}])
    hours = await clinic.call("PUT", f"{path}/overrides", [{"day": day, "shifts": []}])
    assert (hours["rules"][0]["valid_from"], hours["rules"][0]["valid_to"]) == (day, day)
    assert hours["overrides"] == [{"day": day, "shifts": []}]
    assert await clinic.slots() == []


@pytest.mark.parametrize(
    "moment",
    [
        "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
    ],
)
async def test_moments_out_of_range_are_refused(clinic: Clinic, moment: str) -> None:
    wish, client = clinic.wish(moment), bearer("passenger", uuid4())
    series = wish | {"every": "week", "count": 2}
    off = {"starts_at": moment, "ends_at": moment}
    entry = {"service_id": str(clinic.service_id), "from": moment, "to": moment}
    answers = [
        await clinic.send("POST", "/appointments", wish, by=client),
        await clinic.send("POST", "/holds", wish, by=client),
        await clinic.send("POST", "/series", series, by=client),
        await clinic.send("POST", "/waitlist", entry, by=client),
        await clinic.send("POST", f"/workers/{clinic.worker_id}/time-off", off),
        await clinic.send("GET", "/availability/explain", service_id=clinic.service_id, starts_at=moment),
    ]
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert {error["code"] for error in answer.json()["errors"]} == {"moment_implausible"}


@pytest.fixture
async def apart(stack: Stack, settings: Settings) -> AsyncIterator[Clinic]:
    """A clinic in a private database, whose schema the test may change."""
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as client:
        yield await open_clinic(client, parts)


async def unreadable_worker(clinic: Clinic, valid_to: str) -> UUID:
    worker_id = await clinic.worker()
    await clinic.sql("ALTER TABLE worker_rules DROP CONSTRAINT worker_rules_times_in_range")
    await clinic.sql(
        f"UPDATE worker_rules SET valid_to = '{valid_to}' FROM subjects WHERE no = subject_no AND id = $1",
        worker_id,
    )
    return worker_id


def counted() -> float:
    return REGISTRY.get_sample_value("catraca_unreadable_workers_total") or 0.0


@pytest.mark.parametrize("valid_to", ["infinity", "20000-01-01"])
async def test_only_a_worker_with_unreadable_hours_is_left_out(apart: Clinic, valid_to: str) -> None:
    bad, good = await unreadable_worker(apart, valid_to), str(apart.worker_id)
    assert {slot["worker_id"] for slot in await apart.slots(worker_id=None)} == {good}
    assert await apart.slots(worker_id=bad) == []
    client = uuid4()
    booked = await apart.booked(client, apart.at("09:00"), worker_id=None)
    assert booked["worker_id"] == good
    await apart.held(client, apart.at("10:00"), worker_id=None)
    by = bearer("passenger", client)
    series = apart.wish(apart.at("11:00"), worker_id=None) | {"every": "day", "count": 2}
    entry = {"service_id": str(apart.service_id), "from": apart.at("12:00"), "to": apart.at("14:00")}
    for path, body in (("/series", series), ("/waitlist", entry)):
        answer = await apart.send("POST", path, body, by=by)
        assert answer.status_code == 201, answer.text
    refused = await apart.book(client, apart.at("15:00"), worker_id=bad)
    assert (refused.status_code, refused.json()["faults"]) == (422, ["no_worker"])
    await apart.call("PUT", f"/workers/{bad}/rules", ALL_WEEK)
    await apart.booked(client, apart.at("15:00"), worker_id=bad)


async def test_explanations_leave_out_unreadable_workers(apart: Clinic) -> None:
    bad = await unreadable_worker(apart, "infinity")
    query = {"service_id": apart.service_id, "starts_at": apart.at("09:00")}
    report = await apart.call("GET", "/availability/explain", **query)
    assert [one["worker_id"] for one in report["workers"]] == [str(apart.worker_id)]
    report = await apart.call("GET", "/availability/explain", **query, worker_id=bad)
    assert [reason["code"] for reason in report["reasons"]] == ["hours_unreadable"]


async def test_unreadable_workers_are_logged_and_counted_once_a_read(apart: Clinic) -> None:
    bad, before = await unreadable_worker(apart, "infinity"), counted()
    with capture_logs() as logs:
        await apart.slots(worker_id=None)
    assert [line for line in logs if line["log_level"] == "warning"] == [
        {"event": "workers_unreadable", "log_level": "warning", "worker_ids": [str(bad)]}
    ]
    assert counted() == before + 1


async def test_doctor_names_unreadable_workers(apart: Clinic) -> None:
    bad = await unreadable_worker(apart, "infinity")
    verdicts = await check_invariants(apart.parts.database, scheduling.INVARIANTS)
    found = {verdict.rule.name: verdict.found for verdict in verdicts if verdict.state == "broken"}
    assert found["the hours of every worker can be read"] == (f"worker_id={bad}",)
