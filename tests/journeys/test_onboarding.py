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
from tests.domains.onboarding.harness import Receipt, SignUpHarness, message, new_address
from tests.domains.onboarding.own_servers import OwnServers, own_servers_on
from tests.journeys.outages import ANSWER_SECONDS
from tests.servers import private_folder, until

pytestmark = pytest.mark.xdist_group("onboarding")

RETRIES = ["message_retried"] * 3


@pytest.fixture(scope="module", params=["embedded", "servers"])
async def anywhere(request: pytest.FixtureRequest) -> AsyncIterator[OwnServers]:
    folder = private_folder()
    with capture_logs():
        async with own_servers_on(request.param, folder) as own_servers:
            yield own_servers
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def own_servers(anywhere: OwnServers) -> AsyncIterator[OwnServers]:
    with capture_logs() as anywhere.harness.log:
        await anywhere.harness.empty()
        yield anywhere


@pytest.fixture
def harness(own_servers: OwnServers) -> SignUpHarness:
    return own_servers.harness


def is_created(harness: SignUpHarness, receipt: Receipt):
    """A condition: the status for the sign-up's token is `created`."""

    async def ask() -> bool:
        return await harness.ask(receipt) == ("created", None)

    return ask


def logged(harness: SignUpHarness, *events: str) -> list[str]:
    return [line["event"] for line in harness.log if line["event"] in events]


async def test_a_sign_up_is_queued_and_then_created(harness: SignUpHarness) -> None:
    receipt = await harness.sign_up()
    assert await harness.ask(receipt) == ("queued", None)
    async with harness.ingesting("ingester"):
        await until(is_created(harness, receipt))
    assert (await harness.person(receipt.id)) is not None


async def test_the_ingester_resumes_after_a_database_outage(
    own_servers: OwnServers, harness: SignUpHarness
) -> None:
    retried = OUTCOMES.labels(SIGN_UP_QUEUE, "retried")._value.get()
    pauses = PAUSES.labels(SIGN_UP_QUEUE)._value.get
    async with harness.ingesting():
        before = pauses()
        guard = await asyncpg.connect(own_servers.postgres.url)
        await guard.execute("BEGIN; LOCK TABLE users IN SHARE MODE")  # the ingester waits amid its work
        receipt = [await harness.sign_up() for _ in range(12)]

        async def is_amid_them() -> bool:
            return bool(await guard.fetch("SELECT FROM pg_locks WHERE NOT granted"))

        await until(is_amid_them)
        await own_servers.postgres.kill()
        guard.terminate()
        await until(lambda: pauses() >= before + 2)
        if own_servers.bus is not own_servers.postgres:
            receipt.append(await harness.sign_up())  # RabbitMQ still accepts sign-ups
        await own_servers.postgres.start()
        for one in receipt:
            await until(is_created(harness, one))
        await until(harness.is_empty)
    assert await harness.left() == {}
    assert await harness.dead_letters() == []
    assert OUTCOMES.labels(SIGN_UP_QUEUE, "retried")._value.get() == retried, "it was nobody's fault"
    assert await harness.event_keys(*(one.id for one in receipt)) == ["user.created"] * len(receipt)


async def test_failing_sign_up_is_retried_then_dead_lettered(
    harness: SignUpHarness,
) -> None:
    doomed = await harness.sign_up("Doomed Dora")
    neighbours = [await harness.sign_up() for _ in range(15)]
    async with harness.refusing("Doomed Dora"):
        await harness.ingested(*(one.id for one in neighbours), dead=1)
    (letter,) = await harness.dead_letters()
    assert (letter["queue"], letter["reason"], letter["times"]) == (SIGN_UP_QUEUE, "RaiseError", 1)
    assert b"Doomed Dora" in bytes(letter["body"])
    assert '"retries": 3' in letter["headers"]
    assert '"retry_reason": "RaiseError"' in letter["headers"]
    assert logged(harness, "message_retried", "message_dead") == [*RETRIES, "message_dead"]
    assert [line["retries"] for line in harness.log if line["event"] == "message_retried"] == [0, 1, 2]
    log = b" ".join(render(None, "", dict(line)) for line in harness.log).decode()
    assert "Dora" not in log + letter["headers"]
    assert "no room" not in log + letter["headers"]
    assert await harness.ask(doomed) == ("queued", None), "it may still become a person"
    assert await harness.event_keys(*(one.id for one in neighbours), doomed.id) == ["user.created"] * 15
    # The fault in the database is repaired, and the message is sent again.
    await harness.put(message(bytes(letter["body"]), message_id=letter["message_id"]))
    await harness.ingested(doomed.id, dead=1)
    assert await harness.ask(doomed) == ("created", None)


async def test_malformed_json_is_dead_lettered_without_retries(harness: SignUpHarness) -> None:
    broken = b'{"id": "' + str(uuid4()).encode() + b'", "name": "Jo\xe3o'
    await harness.put(message(broken))
    before = await harness.sign_up()
    await harness.ingested(before.id, dead=1)
    after = await harness.sign_up()
    await harness.ingested(after.id, dead=1)
    (letter,) = await harness.dead_letters()
    assert (letter["reason"], bytes(letter["body"]), letter["times"]) == ("malformed_json", broken, 1)
    assert logged(harness, "message_retried", "message_dead") == ["message_dead"]


async def test_sign_ups_are_refused_with_retry_while_the_bus_is_down(
    own_servers: OwnServers, harness: SignUpHarness
) -> None:
    key, email = uuid4().hex, new_address()

    async def try_it() -> httpx.Response:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await harness.post("Ana", email, key=key)

    async def is_taken() -> bool:
        return (await try_it()).status_code == 200

    async def is_refused() -> None:
        refusal = await try_it()
        assert (refusal.status_code, refusal.json()["code"]) == (503, "sign_ups_unavailable")
        assert int(refusal.headers["retry-after"]) >= 1
        assert email not in refusal.text

    await harness.sign_up()  # so that a connection is open
    if own_servers.bus is not own_servers.postgres:
        own_servers.bus.pause()
        await is_refused()
        own_servers.bus.resume()
        await until(is_taken)
    await own_servers.bus.kill()
    await asyncio.gather(*(is_refused() for _ in range(3)))
    await own_servers.bus.start()
    await until(is_taken)
    receipt = await harness.sign_up("Ana", email, key=key)
    await harness.ingested(receipt.id)
    assert await harness.ask(receipt) == ("created", None)
    people = await harness.fetch("SELECT id FROM users WHERE email_folded = $1", email)
    assert [row["id"] for row in people] == [receipt.id]
    assert await harness.event_keys(receipt.id) == ["user.created"]
