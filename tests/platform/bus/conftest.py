"""The buses that must behave alike: PostgreSQL's on both stacks, and RabbitMQ."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from catraca.platform.bus import Topology, Transport
from catraca.platform.bus.postgres import PostgresBus, subscription
from catraca.platform.database import Database, DatabaseLimits
from tests.platform.bus.world import EFFECTS, Connect, World
from tests.servers import Stack


@pytest.fixture(autouse=True)
def _poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often, so that tests of retries on the PostgreSQL bus do not wait for the next poll."""
    monkeypatch.setattr(subscription, "POLL_SECONDS", 0.05)


@pytest.fixture(scope="session")
def carrier(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
async def bus_database_url(stack: Stack) -> str:
    """A separate database with a table for the effects of handlers."""
    url = await stack.migrated_database(f"bus_{uuid4().hex[:8]}")
    database = await Database.open(url)
    async with database.transaction() as db:
        await db.execute(EFFECTS)
    await database.close()
    return url


@pytest.fixture(scope="session")
async def bus_database(bus_database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(bus_database_url, limits=DatabaseLimits(connections=20))
    yield database
    await database.close()


@pytest.fixture(scope="session")
def broker_url(request: pytest.FixtureRequest, carrier: str) -> str | None:
    """Only the cases that need a broker start one."""
    return request.getfixturevalue("amqp_url") if carrier == "rabbitmq" else None


def connector(database: Database, broker_url: str | None) -> Connect:
    def connect(topology: Topology) -> Transport:
        if broker_url is None:
            return PostgresBus(database, topology)
        from catraca.platform.bus.rabbitmq import RabbitMqBus

        return RabbitMqBus(broker_url, topology)

    return connect


@pytest.fixture
async def world(bus_database: Database, broker_url: str | None) -> AsyncIterator[World]:
    async with bus_database.connection() as db:
        await db.execute("TRUNCATE outbox")  # events that another test's relay could not send
    world = World(bus_database, connector(bus_database, broker_url))
    with capture_logs():  # printing a traceback for people takes a second
        yield world
        await world.close()
