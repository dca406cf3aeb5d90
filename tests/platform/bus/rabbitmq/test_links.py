"""A connection that several callers share, some of which stop waiting for it."""

import asyncio
import gc

import pytest
from aiormq.abc import AbstractConnection

from catraca.platform.bus.rabbitmq.connection import Link
from catraca.platform.bus.transport import BusAway
from tests.rabbitmq import RabbitMq

pytestmark = pytest.mark.xdist_group("rabbitmq")


async def test_a_link_that_fails_unused_logs_no_error(broker: RabbitMq) -> None:
    complaints: list[object] = []
    begun, goes_on, failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def prepare(_: AbstractConnection) -> None:
        begun.set()
        await goes_on.wait()
        failed.set()
        raise BusAway("lost")

    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    link = Link(broker.url, purpose="leaving", prepare=prepare)
    try:
        asking = asyncio.create_task(link.connection())
        await begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        goes_on.set()
        await failed.wait()
        with pytest.raises(BusAway):  # from another attempt: the first error was retrieved
            await link.connection()
        gc.collect()
    finally:
        await link.close()
        loop.set_exception_handler(before)
    assert not complaints
