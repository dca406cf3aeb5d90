"""Devices listen on two servers while processes are killed: each receives its notifications once, in order.

A few per cent of what `make prove` does. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import pytest

from tests.rabbitmq import RabbitMq
from tests.servers import Stack
from tests.storms.live.storm import LiveSize, storm_live
from tests.storms.matching.storm import Size
from tests.storms.matching.town import Times
from tests.storms.servers import storm_servers

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("rides")]

SEED = 7

SMALL = LiveSize(
    passengers=10,
    stay_seconds=4,
    town=Size(
        drivers=10,
        rides=24,
        rides_a_second=2.4,
        offers_at_once=2,
        times=Times(
            offer_seconds=1.6,
            retry_seconds=0.5,
            search_seconds=7,
            presence_seconds=5,
            ping_seconds=(0.4, 0.9),
            break_seconds=(0.3, 1),
            drive_seconds=(0.3, 0.9),
            watch_seconds=0.5,
            fickle_seconds=3,
        ),
        # Processes start slowly, so one has three roles here.
        lineup=(("notifier",), ("notifier",), ("dispatcher", "relay", "housekeeper")),
        mishaps={"api": 2, "api restarted": 1, "notifier": 2, "Redis flushed": 1, "Redis killed": 1},
    ),
)


@pytest.fixture
def broker(stack: Stack, request: pytest.FixtureRequest) -> RabbitMq | None:
    return request.getfixturevalue("rabbitmq") if stack.name == "servers" else None


async def test_devices_receive_each_notification_once_in_order(stack: Stack, broker: RabbitMq | None) -> None:
    async with storm_servers(stack.name, broker and broker.url) as place:
        await storm_live(place, broker, SMALL, seed=SEED)
