"""Two hundred clients book the same time while servers are killed: bookings never overlap.

A hundredth of the ten thousand slots of `make prove`. The embedded stack has the PostgreSQL bus, the servers
have RabbitMQ.
"""

from collections.abc import AsyncIterator

import pytest

from tests.servers import Stack
from tests.storms.appointments.crowd import Mishap
from tests.storms.appointments.storm import APIS, SETTINGS, storm_appointments
from tests.storms.fleet import StormFleet, storm_fleet
from tests.storms.rides.accepts import WEATHERS
from tests.storms.servers import storm_servers

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("rides")]


@pytest.fixture(scope="module")
async def here(stack: Stack, broker_url: str | None) -> AsyncIterator[StormFleet]:
    async with (
        storm_servers(stack.name, broker_url) as place,
        storm_fleet(place, apis=APIS, settings=SETTINGS) as fleet,
    ):
        yield fleet


async def test_bookings_never_overlap_and_none_is_lost_in_a_storm(here: StormFleet) -> None:
    weather = {one.name: one for one in WEATHERS}
    mishaps = [
        Mishap(weather=weather["Redis up"], victim=here.apis[0], after_answers=1),
        Mishap(weather=weather["Redis killed amid"], delay_seconds=0.05),
        Mishap(weather=weather["Redis killed before"]),
        Mishap(weather=weather["Redis up"]),
        Mishap(weather=weather["Redis up"], victim=here.apis[0], after_answers=1),
        Mishap(weather=weather["Redis flushed amid"], delay_seconds=0.05),
        Mishap(weather=weather["Redis up"], victim=here.apis[1], after_answers=20),
    ]
    await storm_appointments(here, rounds=1, seed=9, adjacent=30, mishaps=mishaps)
    await here.settle()
