"""A journey for each way in which a sign-up can fail, on both stacks with servers of their own.

The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import httpx
import pytest
from structlog.testing import capture_logs

from catraca.events import SIGN_UP_QUEUE
from catraca.platform.bus.outcome import OUTCOMES, PAUSES
from catraca.platform.telemetry import render
from tests.domains.onboarding.desk import Desk, Taken, an_address, message
from tests.domains.onboarding.place import Place, place_on
from tests.journeys.outages import ANSWER_SECONDS
from tests.servers import private_folder, until

pytestmark = pytest.mark.xdist_group("onboarding")

RETRIES = ["message_retried"] * 3


@pytest.fixture(scope="module", params=["embedded", "servers"])
async def anywhere(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    folder = private_folder()
    with capture_logs():
        async with place_on(request.param, folder) as place:
            yield place
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def place(anywhere: Place) -> AsyncIterator[Place]:
    with capture_logs() as anywhere.desk.log:
        await anywhere.desk.empty()
        yield anywhere


@pytest.fixture
def desk(place: Place) -> Desk:
    return place.desk


def is_created(desk: Desk, taken: Taken):
    """Asked as its owner would."""

    async def ask() -> bool:
        return await desk.ask(taken) == ("created", None)

    return ask


def told_of(desk: Desk, *events: str) -> list[str]:
    return [line["event"] for line in desk.log if line["event"] in events]


async def test_a_sign_up_is_queued_and_then_created(desk: Desk) -> None:
    taken = await desk.sign_up()
    assert await desk.ask(taken) == ("queued", None)
    async with desk.ingesting("ingester"):
        await until(is_created(desk, taken))
    assert (await desk.person(taken.id)) is not None


async def test_the_ingester_resumes_after_a_database_outage(place: Place, desk: Desk) -> None:
    retried = OUTCOMES.labels(SIGN_UP_QUEUE, "retried")._value.get()
    pauses = PAUSES.labels(SIGN_UP_QUEUE)._value.get
    async with desk.ingesting():
        before = pauses()
        guard = await asyncpg.connect(place.postgres.url)
        await guard.execute("BEGIN; LOCK TABLE users IN SHARE MODE")  # so that the ingester is amid them
        taken = [await desk.sign_up() for _ in range(12)]

        async def is_amid_them() -> bool:
            return bool(await guard.fetch("SELECT FROM pg_locks WHERE NOT granted"))

        await until(is_amid_them)
        await place.postgres.kill()
        guard.terminate()
        await until(lambda: pauses() >= before + 2)
        if place.bus is not place.postgres:
            taken.append(await desk.sign_up())  # the bus takes them all the same
        await place.postgres.start()
        for one in taken:
            await until(is_created(desk, one))
        await until(desk.is_empty)
    assert await desk.left() == {}
    assert await desk.dead_letters() == []
    assert OUTCOMES.labels(SIGN_UP_QUEUE, "retried")._value.get() == retried, "it was nobody's fault"
    assert await desk.told(*(one.id for one in taken)) == ["user.created"] * len(taken)


async def test_a_sign_up_that_always_fails_is_retried_then_dead_lettered(
    desk: Desk,
) -> None:
    doomed = await desk.sign_up("Doomed Dora")
    neighbours = [await desk.sign_up() for _ in range(15)]
    async with desk.refusing("Doomed Dora"):
        await desk.ingested(*(one.id for one in neighbours), dead=1)
    (letter,) = await desk.dead_letters()
    assert (letter["queue"], letter["reason"], letter["times"]) == (SIGN_UP_QUEUE, "RaiseError", 1)
    assert b"Doomed Dora" in bytes(letter["body"])
    assert '"retries": 3' in letter["headers"]
    assert '"retry_reason": "RaiseError"' in letter["headers"]
    assert told_of(desk, "message_retried", "message_dead") == [*RETRIES, "message_dead"]
    assert [line["retries"] for line in desk.log if line["event"] == "message_retried"] == [0, 1, 2]
    said = b" ".join(render(None, "", dict(line)) for line in desk.log).decode()
    assert "Dora" not in said + letter["headers"]
    assert "no room" not in said + letter["headers"]
    assert await desk.ask(doomed) == ("queued", None), "it may still become a person"
    assert await desk.told(*(one.id for one in neighbours), doomed.id) == ["user.created"] * 15
    # What was wrong with the database is mended, and the message sent once more.
    await desk.put(message(bytes(letter["body"]), message_id=letter["message_id"]))
    await desk.ingested(doomed.id, dead=1)
    assert await desk.ask(doomed) == ("created", None)


async def test_malformed_json_is_dead_lettered_without_retries(desk: Desk) -> None:
    broken = b'{"id": "' + str(uuid4()).encode() + b'", "name": "Jo\xe3o'
    await desk.put(message(broken))
    before = await desk.sign_up()
    await desk.ingested(before.id, dead=1)
    after = await desk.sign_up()
    await desk.ingested(after.id, dead=1)
    (letter,) = await desk.dead_letters()
    assert (letter["reason"], bytes(letter["body"]), letter["times"]) == ("malformed_json", broken, 1)
    assert told_of(desk, "message_retried", "message_dead") == ["message_dead"]


async def test_sign_ups_are_refused_with_retry_while_the_bus_is_down(place: Place, desk: Desk) -> None:
    key, email = uuid4().hex, an_address()

    async def try_it() -> httpx.Response:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await desk.post("Ana", email, key=key)

    async def is_taken() -> bool:
        return (await try_it()).status_code == 200

    async def is_refused() -> None:
        refusal = await try_it()
        assert (refusal.status_code, refusal.json()["code"]) == (503, "sign_ups_unavailable")
        assert int(refusal.headers["retry-after"]) >= 1
        assert email not in refusal.text

    await desk.sign_up()  # so that there is a connection to lose
    if place.bus is not place.postgres:
        place.bus.pause()
        await is_refused()
        place.bus.resume()
        await until(is_taken)
    await place.bus.kill()
    await asyncio.gather(*(is_refused() for _ in range(3)))
    await place.bus.start()
    await until(is_taken)
    taken = await desk.sign_up("Ana", email, key=key)
    await desk.ingested(taken.id)
    assert await desk.ask(taken) == ("created", None)
    people = await desk.fetch("SELECT id FROM users WHERE email_folded = $1", email)
    assert [row["id"] for row in people] == [taken.id]
    assert await desk.told(taken.id) == ["user.created"]
