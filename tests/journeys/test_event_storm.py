"""Events through crashes: each event is delivered and applied once.

A hundredth of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from signal import SIGKILL
from uuid import uuid4

import httpx
import pytest

from tests.journeys.instances import Instance, instance
from tests.servers import Stack, on_one_stack, until
from tests.storms.events.rolling_restarts import CHECKS, restart_in_turn
from tests.storms.events.room import EventWorld, event_world
from tests.storms.events.storm import die_in_windows, jostle
from tests.storms.events.windows import WINDOWS
from tests.storms.servers import storm_servers

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("news")]

# Every role twice, in fewer processes than `make prove`; of each pair one gets SIGTERM and one SIGKILL.
LINEUP = (("relay", "housekeeper"), ("dispatcher", "notifier"))
LINEUP += LINEUP[::-1]


@pytest.fixture
def broker(stack: Stack, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None


@pytest.fixture(scope="module")
async def world_url(stack: Stack) -> str:
    return await stack.new_database(f"news_{uuid4().hex}")


@pytest.fixture
async def room(world_url: str, broker: str | None) -> AsyncIterator[EventWorld]:
    async with event_world(world_url, broker) as room:
        yield room


async def test_events_survive_process_deaths_without_loss_or_repeat(room: EventWorld) -> None:
    await die_in_windows(room, WINDOWS, more=30, apart=False)


# `make test-all` runs the crowd and the restarts on one stack each, `make prove` on both.
@pytest.mark.parametrize("stack", ["embedded"], indirect=True)
async def test_order_is_kept_when_relays_and_consumers_die_or_freeze(
    room: EventWorld,
) -> None:
    await jostle(room, rounds=1)


@on_one_stack
async def test_rolling_restarts_under_load_make_no_dead_letters(stack: Stack, broker: str | None) -> None:
    async with storm_servers(stack.name, broker) as servers:
        await restart_in_turn(servers, passes=1)


@pytest.fixture
async def here() -> AsyncIterator[Instance]:
    async with instance() as found:
        yield found


async def test_pending_events_are_delivered_after_kill_9_of_everything(here: Instance) -> None:
    await here.start()
    arrived = 0

    async def arrive_until_dead() -> None:
        nonlocal arrived
        with suppress(httpx.TransportError):
            while True:
                await here.write_name("Dalva")
                arrived += 1

    arriving = [asyncio.create_task(arrive_until_dead()) for _ in range(4)]
    await until(lambda: arrived >= 40)
    for pid in here.family():
        os.kill(pid, SIGKILL)
    await asyncio.gather(*arriving)
    assert await here.ended() == -SIGKILL
    await here.start()

    async def all_is_told() -> bool:
        counts = [await here.query(f"SELECT count(*) FROM ({query}) AS broken") for query in CHECKS.values()]
        return not any(counts)

    await until(all_is_told)
    assert await here.query("SELECT count(*) FROM audit_log WHERE action = 'user.created'") >= arrived
    assert await here.stop() == 0
