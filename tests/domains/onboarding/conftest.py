"""A harness for each bus, with its own database."""

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from catraca.settings import Settings
from tests.domains.onboarding.harness import QUICK, SignUpHarness
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts


@pytest.fixture(scope="session")
def broker_url(stack: Stack, request: pytest.FixtureRequest) -> str | None:
    """RabbitMQ for the servers stack; started on first use."""
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None


@pytest.fixture(scope="session")
async def shared_harness(
    stack: Stack, settings: Settings, broker_url: str | None
) -> AsyncIterator[SignUpHarness]:
    async with (
        own_parts(stack, settings, amqp_url=broker_url, **QUICK) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield SignUpHarness(parts, client)


@pytest.fixture
async def harness(shared_harness: SignUpHarness) -> AsyncIterator[SignUpHarness]:
    with capture_logs() as shared_harness.log:  # printing a traceback takes a second
        await shared_harness.empty()
        yield shared_harness
