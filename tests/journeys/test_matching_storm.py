"""A town's rides while processes are killed: every ride ends correctly, no driver has two offers.

A few per cent of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

from dataclasses import replace

import pytest

from tests.rabbitmq import RabbitMq
from tests.servers import Stack
from tests.storms.matching.storm import Size, storm_matching
from tests.storms.matching.town import Times
from tests.storms.servers import storm_servers

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("rides")]

# With this seed Redis is killed first, so the locks that the last rides leave are checked.
SEED = 12

SMALL = Size(
    drivers=16,
    rides=20,
    rides_a_second=3,
    times=Times(
        offer_seconds=1.6,
        retry_seconds=0.5,
        search_seconds=7,
        presence_seconds=5,
        ping_seconds=(0.7, 1.4),
        break_seconds=(0.3, 1),
        drive_seconds=(0.2, 0.7),
        watch_seconds=0.5,
        fickle_seconds=3,
    ),
    # Processes start slowly, so some have two roles here.
    lineup=(("dispatcher", "relay"), ("dispatcher", "relay"), ("housekeeper", "notifier")),
    mishaps={
        "dispatcher": 2,
        "api": 1,
        "housekeeper": 1,
        "Redis flushed": 1,
        "Redis killed": 1,
        "RabbitMQ killed": 1,
        "PostgreSQL killed": 1,
    },
)


@pytest.fixture
def broker(stack: Stack, request: pytest.FixtureRequest) -> RabbitMq | None:
    return request.getfixturevalue("rabbitmq") if stack.name == "servers" else None


async def test_rides_end_correctly_and_no_driver_has_two_offers(
    stack: Stack, broker: RabbitMq | None
) -> None:
    size = replace(SMALL, offers_at_once=1 if broker is None else 2)
    async with storm_servers(stack.name, broker and broker.url) as place:
        await storm_matching(place, broker, size, seed=SEED)
