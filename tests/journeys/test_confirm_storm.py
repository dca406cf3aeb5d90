"""Concurrent, repeated and late confirmations of one token while servers are killed: one ride.

Two rounds of the two hundred of `make prove`. The embedded stack has the PostgreSQL bus, the servers have
RabbitMQ.
"""

from collections.abc import AsyncIterator

import pytest

from tests.servers import Stack
from tests.storms.commit_gate import CommitGate
from tests.storms.confirmations.commits import come_during_commit, die_around_confirm
from tests.storms.confirmations.plans import PHONES, Plan
from tests.storms.confirmations.storm import storm_confirmations
from tests.storms.fleet import ApiProcess, StormFleet, storm_fleet
from tests.storms.rides.accepts import WEATHERS
from tests.storms.servers import storm_servers

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("rides")]


@pytest.fixture(scope="module")
async def here(stack: Stack, broker_url: str | None) -> AsyncIterator[StormFleet]:
    """Shared by all tests: each leaves it idle and consistent."""
    async with storm_servers(stack.name, broker_url) as place, storm_fleet(place) as fleet:
        yield fleet


@pytest.fixture(scope="module")
async def gated(here: StormFleet) -> AsyncIterator[tuple[ApiProcess, CommitGate]]:
    async with here.gated_api() as api_and_gate:
        yield api_and_gate


async def test_200_confirmations_make_one_ride_when_an_api_dies(here: StormFleet) -> None:
    (flushed,) = (weather for weather in WEATHERS if weather.name == "Redis flushed amid")
    plans = [
        Plan(victim=here.apis[0], delay_seconds=0.04, phones=PHONES),
        # With repeats after the expiry.
        Plan(victim=here.apis[1], after_answers=20, weather=flushed, brief=True),
    ]
    await storm_confirmations(here, rounds=2, seed=8, plans=plans)
    await here.settle()


async def test_api_death_around_a_confirmations_commit_makes_one_ride(
    here: StormFleet, gated: tuple[ApiProcess, CommitGate]
) -> None:
    await die_around_confirm(here, *gated)
    await here.settle()


async def test_a_late_confirmation_during_the_commit_returns_the_ride(
    here: StormFleet, gated: tuple[ApiProcess, CommitGate]
) -> None:
    await come_during_commit(here, *gated)
    await here.settle()
