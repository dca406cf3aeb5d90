"""A RabbitMQ that these tests may starve, freeze and tamper with, and for each a small topology on it."""

import shutil
from collections.abc import AsyncIterator

import aiormq
import pytest
from aiormq.channel import Channel

from tests.platform.bus.rabbitmq.world import World
from tests.rabbitmq import RabbitMq
from tests.servers import private_folder, until


@pytest.fixture(scope="session")
async def broker() -> AsyncIterator[RabbitMq]:
    folder = private_folder()
    server = RabbitMq(folder / "rabbitmq")
    server.start()
    try:
        await until(server.answers)
        yield server
    finally:
        await server.end()
        shutil.rmtree(folder, ignore_errors=True)


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
