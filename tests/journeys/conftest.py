"""The broker of the journeys."""

import pytest

from tests.servers import Stack


@pytest.fixture(scope="session")
def broker_url(stack: Stack, request: pytest.FixtureRequest) -> str | None:
    """The embedded stack has the PostgreSQL bus, the servers RabbitMQ."""
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None
