"""A desk for each bus, on a database in which nobody else signs up."""

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from catraca.settings import Settings
from tests.domains.onboarding.desk import QUICK, Desk
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts


@pytest.fixture(scope="session")
def broker_url(stack: Stack, request: pytest.FixtureRequest) -> str | None:
    """The servers' stack has a broker, and starts it only here."""
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None


@pytest.fixture(scope="session")
async def office(stack: Stack, settings: Settings, broker_url: str | None) -> AsyncIterator[Desk]:
    async with (
        own_parts(stack, settings, amqp_url=broker_url, **QUICK) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield Desk(parts, client)


@pytest.fixture
async def desk(office: Desk) -> AsyncIterator[Desk]:
    with capture_logs() as office.log:  # printed for people to read, every traceback would take a second
        await office.empty()
        yield office
