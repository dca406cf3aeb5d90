"""An erased person leaves no trace, in no column of any table; an export has all that is stored."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.scheduling.clinic import open_clinic
from tests.security.lives import Life, Story, rows_with
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts, working

ROLES = ("relay", "dispatcher", "notifier", "ingester", "housekeeper")


@pytest.fixture
async def story(stack: Stack, settings: Settings) -> AsyncIterator[Story]:
    """A passenger and a driver after a ride, in a database of their own."""
    async with (
        own_parts(stack, settings) as parts,
        served(parts) as here,
        here.client() as api,
        working(parts, ROLES),
    ):
        clinic = await open_clinic(api, parts)
        passenger, driver = Life(api, "passenger", "zulmira"), Life(api, "driver", "severino")
        story = Story(api, parts.database, clinic, passenger, driver)
        await story.tell()
        yield story


def traces_of(person: Life) -> list[str]:
    return [person.mark, person.profile["phone"]]


async def test_erased_people_leave_no_trace_in_any_column(story: Story) -> None:
    passenger, driver, operator = story.passenger, story.driver, bearer("operator")
    before = await rows_with(story.database, [passenger.mark, driver.mark, *story.passenger_places()])
    for table in ("rides", "outbox_sent", "idempotency_keys", "notifications", "matchings"):
        assert any(one.startswith(table) for one in before), f"{table} has a trace before: {before}"
    for person, more in (
        (passenger, story.passenger_places()),
        (driver, ["TRC1D23", *story.driver_places()]),
    ):
        answer = await story.api.delete(f"/v1/users/{person.id}", headers=operator)
        assert answer.status_code == 204, answer.text
        await story.settle()
        left = await rows_with(story.database, [*traces_of(person), *more])
        assert not left, "\n".join(left)


async def test_export_has_notes_devices_and_attempts(story: Story) -> None:
    passenger, driver = story.passenger, story.driver
    own = (await story.api.get("/v1/me/export", headers=passenger.headers)).json()["sections"]
    assert f"Nota de {passenger.mark}" in {ride["cancel_note"] for ride in own["rides"]}
    assert [device["endpoint"] for device in own["push_devices"]] == [
        f"https://push.example.org/{passenger.mark}"
    ]
    drivers = (await story.api.get("/v1/me/export", headers=driver.headers)).json()["sections"]
    (attempt,) = drivers["ride_attempts"]
    assert attempt["user_agent"] == f"{driver.mark}/1.0"
    assert attempt["ip_address"] == "127.0.0.1"
    assert attempt["status"] == "SUCCESS"
    assert all(ride["cancel_note"] is None for ride in drivers["rides"])


async def test_erased_answers_still_answer_a_repeated_key(story: Story) -> None:
    """The key stays: a repeat by the other party has no second effect, and does not name the person."""
    key = {"idempotency-key": uuid4().hex}
    path = f"/v1/users/{story.passenger.id}"
    operator = bearer("operator", uuid4())
    body = {"roles": ["passenger", "worker"]}
    first = await story.api.put(f"{path}/roles", json=body, headers=operator | key)
    assert first.json()["name"] == story.passenger.profile["name"], first.text
    await story.api.delete(path, headers=operator)
    again = await story.api.put(f"{path}/roles", json=body, headers=operator | key)
    assert again.status_code == first.status_code
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["name"] is None
