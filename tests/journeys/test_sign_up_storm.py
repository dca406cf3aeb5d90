"""Sign-ups through crashes and outages: each acknowledged one becomes a user, a rejection or a dead letter.

A hundredth of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.platform.bus.breakable import Embedded, Postgres, debian, started
from tests.servers import Stack, on_one_stack, private_folder
from tests.support.sign_up_fleet import Place
from tests.support.sign_up_outage import outlast_outage
from tests.support.sign_up_storm import Size, weather_sign_ups

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
async def postgres(stack: Stack) -> AsyncIterator[Postgres]:
    """A PostgreSQL that the tests may break."""
    folder = private_folder()
    async with started(Embedded(folder)) if stack.name == "embedded" else debian(folder) as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(stack: Stack, postgres: Postgres, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    amqp_url = request.getfixturevalue("amqp_url") if stack.name == "servers" else None
    return Place(tmp_path, postgres, stack.redis_url, amqp_url)


async def test_acknowledged_sign_ups_are_accounted_for_after_kills(
    place: Place,
) -> None:
    # What a dead consumer had comes back from RabbitMQ at once; PostgreSQL waits for its lease each time.
    crash_loop = 1 if place.amqp_url is None else HUNDREDTH.crash_loop
    await weather_sign_ups(place, replace(HUNDREDTH, crash_loop=crash_loop), seed=4)


@on_one_stack  # where people are acknowledged meanwhile
async def test_a_database_outage_dead_letters_no_sign_up(
    place: Place,
) -> None:
    await outlast_outage(place, seconds=3, freezes=True)
