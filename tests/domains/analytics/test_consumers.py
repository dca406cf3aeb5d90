"""Consumers of both buses: each event counts once."""

import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import aiormq
import pytest
from msgspec.structs import replace

from catraca.domains.analytics.handlers import EVENTS
from catraca.domains.analytics.model import by_hour, cell_of, fact_of, name_of, region_of
from catraca.events import TOPOLOGY, RideStarted
from catraca.events.catalogue import example_of
from catraca.platform.bus import Message, Unreadable
from catraca.platform.event import Event, key_of
from catraca.roles.parts import Parts
from catraca.roles.replay_targets import replay_targets
from catraca.settings import Settings
from tests.domains.analytics.counts import demand, rows
from tests.domains.analytics.example_events import (
    HERE,
    NEARBY,
    failed,
    matched,
    message_of,
    reassigning,
    requested,
)
from tests.servers import Stack, until
from tests.support.roles import own_parts, working

RIDES, SEARCHES = EVENTS


@pytest.fixture(params=["postgres", pytest.param("rabbitmq", marks=pytest.mark.xdist_group("rabbitmq"))])
def broker_url(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("amqp_url") if request.param == "rabbitmq" else None


@pytest.fixture
async def parts(stack: Stack, settings: Settings, broker_url: str | None) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings, amqp_url=broker_url) as parts:
        await parts.bus.declare()
        if broker_url is not None:
            await empty(broker_url)
        yield parts


async def empty(broker_url: str) -> None:
    """Purge messages of other tests from the queues."""
    connection = await aiormq.connect(broker_url)
    channel = await connection.channel()
    for queue in EVENTS:
        await channel.queue_purge(queue)
    await connection.close()


def sent_to(queue: str, *events: Event) -> list[Message]:
    """Messages for this queue only: other consumers must not get events of rides that do not exist."""
    return [replace(message_of(event), queue=queue) for event in events]


async def applied(parts: Parts) -> int:
    (row,) = await rows(parts.database, "SELECT count(*) AS n FROM inbox WHERE consumer LIKE 'analytics%'")
    return row["n"]


async def lines(parts: Parts) -> list[dict[str, Any]]:
    return await rows(parts.database, "SELECT * FROM audit_log WHERE action = 'analytics.matches_failing'")


async def test_each_event_counts_once_for_many_deliveries(parts: Parts) -> None:
    about_rides: list[Event] = [
        *(requested() for _ in range(40)),
        *(matched(pickup=NEARBY) for _ in range(30)),
        reassigning(),
        example_of(RideStarted),
    ]
    about_searches = [failed() for _ in range(10)]
    events = [*about_rides, *about_searches]
    messages = [*sent_to(RIDES, *about_rides), *sent_to(SEARCHES, *about_searches)]
    deliveries = messages * 3
    random.Random(7).shuffle(deliveries)
    async with working(parts, ["relay", "housekeeper", "housekeeper"]):
        for start in range(0, len(deliveries), 50):
            sent = await parts.bus.publish(deliveries[start : start + 50])
            assert sent == [None] * len(sent)

        async def all_applied() -> bool:
            depths = await parts.bus.depths()
            return await applied(parts) == len(events) and not any(depths[queue] for queue in EVENTS)

        await until(all_applied)
        (line,) = await until(lambda: lines(parts))
    facts = [fact for event in events if (fact := fact_of(event)) is not None]
    assert await demand(parts.database) == [
        {"hour": hour, "cell": cell} | {name: getattr(sums, name) for name in type(sums).__slots__}
        for (hour, cell), sums in by_hour(facts).items()
    ]
    # All events are in one region and hour: one alert, and one audit entry.
    (alert,) = await rows(parts.database, "SELECT * FROM demand_alerts")
    assert name_of(alert["region"]) == name_of(region_of(cell_of(HERE)))
    assert (UUID(line["subject_id"]), line["subject_kind"]) == (alert["id"], "analytics")


async def test_unreadable_event_dies_and_others_count(parts: Parts) -> None:
    good, bad, other = sent_to(RIDES, requested(), matched(), requested())
    messages = [good, replace(bad, body=b'{"event_type":"ride.matched"}'), other]

    async def dead() -> list[dict[str, Any]]:
        return await rows(parts.database, "SELECT queue, reason FROM dead_letters ORDER BY queue")

    async with working(parts, ["housekeeper"]):
        assert await parts.bus.publish(messages) == [None] * 3
        assert await until(dead) == [{"queue": RIDES, "reason": "wrong_shape"}]
        await until(lambda: applied_is(parts, 2))
    (row,) = await demand(parts.database)
    assert (row["requests"], row["matched"]) == (2, 0)


async def applied_is(parts: Parts, count: int) -> bool:
    return await applied(parts) == count


def test_dead_letters_of_analytics_can_be_replayed() -> None:
    targets = replay_targets(TOPOLOGY)
    dying = {queue.name for queue in TOPOLOGY.queues if queue.dead_letters_to is not None}
    assert targets.keys() == dying, "every queue with dead letters takes replays"
    for queue, kinds in EVENTS.items():
        for kind in kinds:
            targets[queue].check(key_of(kind), message_of(example_of(kind)).body)
            with pytest.raises(Unreadable):
                targets[queue].check(key_of(kind), b"{}")
        targets[queue].check("ride.unheard_of", b"{}")
        with pytest.raises(Unreadable):
            targets[queue].check("ride.unheard_of", b"{")
