"""Sign-ups through crashes and outages: each acknowledged one becomes a user, a rejection or a dead letter.

A hundredth of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.servers import Stack, on_one_stack
from tests.storms.servers import StormServers, storm_servers
from tests.storms.sign_ups.outage import outlast_outage
from tests.storms.sign_ups.storm import Size, storm_sign_ups

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("news")]

HUNDREDTH = Size(
    sign_ups=1000,
    kill_pause_seconds=(0.8, 1.6),
    crash_loop=5,
    postgres_restarts=1,
    callers=8,
    caller_pause_seconds=0.04,
    settings={"USERS_BATCH_SIZE": "100", "USERS_BATCH_TIMEOUT_MS": "300"},
)


@pytest.fixture(scope="module")
async def servers(stack: Stack, broker_url: str | None) -> AsyncIterator[StormServers]:
    async with storm_servers(stack.name, broker_url) as servers:
        yield servers


async def test_acknowledged_sign_ups_are_accounted_for_after_kills(servers: StormServers) -> None:
    # RabbitMQ returns the messages of a killed consumer at once; PostgreSQL waits for the lease each time.
    crash_loop = 1 if servers.amqp_url is None else HUNDREDTH.crash_loop
    await storm_sign_ups(servers, replace(HUNDREDTH, crash_loop=crash_loop), seed=4)


@on_one_stack  # the one that acknowledges sign-ups during the outage
async def test_a_database_outage_dead_letters_no_sign_up(servers: StormServers) -> None:
    await outlast_outage(servers, seconds=3, freezes=True)
