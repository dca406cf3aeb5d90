"""Concurrent accepts, refusals, expiries and failures around one ride: one driver gets it.

A hundredth of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

from collections.abc import AsyncIterator

import pytest

from tests.servers import Stack
from tests.storms.commit_gate import CommitGate
from tests.storms.fleet import ApiProcess, StormFleet, storm_fleet
from tests.storms.rides.accepts import accept_again_and_again, accept_at_once
from tests.storms.rides.kills import DEATHS, die_around_commit, kill_amid_bursts
from tests.storms.rides.pauses import (
    be_late_twice,
    pause_amid_burst,
    pause_before_commit,
    pause_before_request,
)
from tests.storms.rides.races import race
from tests.storms.rides.replays import replay
from tests.storms.servers import storm_servers

pytestmark = pytest.mark.xdist_group("rides")


@pytest.fixture(scope="module")
async def here(stack: Stack, broker_url: str | None) -> AsyncIterator[StormFleet]:
    """Shared by all tests: each leaves it idle and consistent."""
    async with storm_servers(stack.name, broker_url) as place, storm_fleet(place) as fleet:
        yield fleet


@pytest.fixture(scope="module")
async def gated(here: StormFleet) -> AsyncIterator[tuple[ApiProcess, CommitGate]]:
    async with here.gated_api() as api_and_gate:
        yield api_and_gate


@pytest.mark.long
async def test_one_of_100_drivers_gets_the_ride_during_redis_failures(here: StormFleet) -> None:
    await accept_at_once(here, drivers=100, rounds=1)
    await here.settle()


async def test_repeated_accept_with_one_key_is_one_attempt(here: StormFleet) -> None:
    await accept_again_and_again(here, times=50)
    await here.settle()


async def test_repeats_get_the_first_answer_and_change_nothing(here: StormFleet) -> None:
    await replay(here, replays=1000)
    await here.settle()


@pytest.mark.long
async def test_concurrent_ends_of_an_offer_have_one_outcome(here: StormFleet) -> None:
    await race(here, rounds=100, seed=5)


@pytest.mark.long
async def test_resumed_process_cannot_accept_an_expired_offer(
    here: StormFleet, gated: tuple[ApiProcess, CommitGate]
) -> None:
    await pause_before_commit(here, *gated)
    await pause_before_request(here, gated[0])
    await be_late_twice(here, *gated)
    await pause_amid_burst(here, drivers=20, after_seconds=0.01)
    await here.settle()


async def test_api_death_around_the_commit_leaves_one_winner(
    here: StormFleet, gated: tuple[ApiProcess, CommitGate]
) -> None:
    await die_around_commit(here, *gated, DEATHS[:2])
    await kill_amid_bursts(here, drivers=20, rounds=2, seed=5)
    await here.settle()
