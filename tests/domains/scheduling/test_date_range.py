"""Dates and moments of requests are from 1970-01-01 to 2199-12-31; the database refuses any other."""

from uuid import uuid4

import pytest

from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, Clinic

# The last two are infinite for PostgreSQL.
OUT_OF_RANGE = ["1969-12-31", "2200-01-01", "0001-01-01", "9999-12-31"]


async def test_a_rule_until_the_year_9999_blocks_no_other_worker(clinic: Clinic) -> None:
    account = uuid4()
    by = bearer("worker", account)
    await clinic.api.get("/v1/me", headers=by)
    other = await clinic.worker(user_id=str(account))
    rules = [rule | {"valid_to": "9999-12-31"} for rule in ALL_WEEK]
    answer = await clinic.send("PUT", f"/workers/{other}/rules", rules, by=by)
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    assert (error["where"], error["code"]) == ("body.0.valid_to", "date_implausible")
    assert {slot["worker_id"] for slot in await clinic.slots(worker_id=None)} == {
        str(clinic.worker_id),
        str(other),
    }
    await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=None)


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
