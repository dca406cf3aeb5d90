"""A RabbitMQ that these tests may starve, freeze and tamper with, and a small topology for each test."""

from collections.abc import AsyncIterator

import aiormq
import pytest
from aiormq.channel import Channel

from tests.platform.bus.rabbitmq.world import World
from tests.rabbitmq import RabbitMq


@pytest.fixture
def broker(rabbitmq: RabbitMq) -> RabbitMq:
    """The tests that use it are in one xdist group, so none runs while another starves or freezes it."""
    return rabbitmq


@pytest.fixture
async def world(broker: RabbitMq) -> AsyncIterator[World]:
    world = World(broker)
    try:
        yield world
    finally:
        await world.close()


@pytest.fixture
async def stranger(broker: RabbitMq) -> AsyncIterator[Channel]:
    """A channel of another program."""
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    assert isinstance(channel, Channel)
    yield channel
    await connection.close()
