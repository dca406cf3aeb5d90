"""Publishing as RabbitMQ does it: confirms, returns, a broker that does not read, a broker that hangs."""

import asyncio
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from catraca.platform.bus import BusAway, QueueFull, Unroutable
from catraca.platform.bus.rabbitmq import RabbitMqBus, publisher
from catraca.platform.ids import new_id
from tests.conftest import free_port
from tests.platform.bus.rabbitmq.world import World, always, take
from tests.servers import START_SECONDS, until

pytestmark = pytest.mark.xdist_group("rabbitmq")


async def test_a_body_larger_than_a_frame_arrives_whole(world: World) -> None:
    bus = world.bus()
    subscription = await world.subscribe(bus, world.first)
    body = bytes(range(256)) * 2000
    assert await bus.publish([world.message(body=body), world.message(body=b"")]) == [None, None]

    large, empty = await take(subscription, 2)

    assert large.message.body == body
    assert empty.message.body == b""


async def test_message_arrives_unchanged(world: World) -> None:
    bus = world.bus()
    subscription = await world.subscribe(bus, world.first)
    message = world.message(body=b'{"event_type": "ride.requested"}')
    await bus.publish([message])

    [delivery] = await take(subscription, 1)

    assert delivery.message == message
    assert delivery.unreadable is None


async def test_an_unroutable_message_harms_no_other(world: World) -> None:
    bus = world.bus()
    nowhere = msgspec.structs.replace(world.message(), exchange="nowhere")
    too_long = world.message("ride." + "r" * 300)

    unknown, unsendable, sent = await bus.publish([nowhere, too_long, world.message()])

    assert isinstance(unknown, Unroutable)
    assert isinstance(unsendable, Unroutable)
    assert sent is None


async def test_after_a_failure_the_rest_of_the_aggregate_is_not_tried(world: World) -> None:
    bus = world.bus()
    subscription = await world.subscribe(bus, world.first)
    ride = new_id()
    before = world.message(about=ride, seq=1)
    lost = world.message("nobody.listens", about=ride, seq=2)
    after = world.message(about=ride, seq=3)
    other = world.message()

    outcomes = await bus.publish([before, lost, after, other])

    assert [type(outcome) for outcome in outcomes] == [type(None), Unroutable, Unroutable, type(None)]
    assert {one.message.id for one in await take(subscription, 2)} == {before.id, other.id}
    assert (await bus.depths())[world.second.name] == 2


async def test_the_same_message_in_flight_twice_hides_no_return(world: World) -> None:
    bus = world.bus()
    await bus.declare()
    twin = world.message("nobody.listens")

    outcomes = await asyncio.gather(*(bus.publish([twin]) for _ in range(20)))

    assert all(isinstance(outcome, Unroutable) for [outcome] in outcomes)


async def test_more_messages_than_the_in_flight_limit_are_confirmed(world: World) -> None:
    bus = world.bus()
    rides = [new_id() for _ in range(300)]
    news = [world.message(about=ride, seq=seq) for seq in (1, 2, 3) for ride in rides]

    assert await bus.publish(news) == [None] * 900
    assert (await bus.depths())[world.first.name] == 900


async def test_full_queue_refuses_and_blocks_no_other_queue(world: World) -> None:
    short = replace(world.first, max_length=5)
    bus = world.bus(queues=(short, world.letters))
    elsewhere = msgspec.structs.replace(world.message(), exchange=world.dlx)

    outcomes = await bus.publish([world.message() for _ in range(400)])

    assert outcomes.count(None) >= 5
    assert {type(outcome) for outcome in outcomes} == {type(None), QueueFull}
    assert await bus.publish([elsewhere]) == [None]


async def test_broker_short_of_memory_blocks_publishing_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = world.bus()
    subscription = await world.subscribe(bus, replace(world.first, prefetch=1))
    assert await bus.publish([world.message(), world.message()]) == [None, None]
    in_hand = await take(subscription, 1)

    await world.broker.ctl("set_vm_memory_high_watermark", "0")
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(publisher, "PUBLISH_SECONDS", 1.0)
            [caught] = await bus.publish([world.message()])  # RabbitMQ blocks the connection at this message
            refused = [world.message() for _ in range(3)]
            outcomes = await bus.publish(refused)
        await subscription.done(in_hand)
        await subscription.done(await take(subscription, 1))  # delivered after the first is acknowledged
    finally:
        await world.broker.ctl("set_vm_memory_high_watermark", "0.4")

    assert isinstance(caught, BusAway)
    assert all(isinstance(outcome, BusAway) for outcome in outcomes)
    last = world.message()
    assert await bus.publish([last]) == [None]
    arrived: set[object] = set()
    while last.id not in arrived:
        taken = await take(subscription, 1)
        arrived |= {one.message.id for one in taken}
        await subscription.done(taken)
    assert not arrived & {one.id for one in refused}, "what was refused must not pile up and arrive later"


async def test_a_broker_that_hangs_is_away_and_then_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = world.bus()
    assert await bus.publish([world.message()]) == [None]

    world.broker.pause()
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(publisher, "PUBLISH_SECONDS", 1.0)
            outcomes = await bus.publish([world.message() for _ in range(300)])
    finally:
        world.broker.resume()

    assert all(isinstance(outcome, BusAway) for outcome in outcomes)
    assert await bus.publish([world.message() for _ in range(300)]) == [None] * 300


async def test_a_canceled_publish_stops_waiting_for_confirms(world: World) -> None:
    bus = world.bus()
    assert await bus.publish([world.message()]) == [None]
    news = [world.message() for _ in range(300)]

    world.broker.pause()
    publishing = asyncio.create_task(bus.publish(news))
    try:
        await until(lambda: bus._publisher._in_flight)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
    finally:
        world.broker.resume()

    assert await bus.publish(news) == [None] * 300


async def test_a_lost_connection_fails_its_publishes_and_is_replaced(world: World) -> None:
    bus = world.bus()
    assert await bus.publish([world.message()]) == [None]
    told: list[Exception | None] = []
    lost = asyncio.Event()

    async def publish_on_and_on() -> None:
        while not lost.is_set() or told[-1] is not None:
            told.extend(await bus.publish([world.message() for _ in range(50)]))

    publishing = asyncio.create_task(publish_on_and_on())
    await world.broker.ctl("close_all_connections", "the test says so")
    lost.set()
    await asyncio.wait_for(publishing, START_SECONDS)

    assert all(outcome is None or isinstance(outcome, BusAway) for outcome in told)
    assert (await bus.depths())[world.first.name] >= sum(outcome is None for outcome in told)


async def test_without_a_broker_everything_is_away_and_nothing_fails(world: World) -> None:
    bus = RabbitMqBus(f"amqp://127.0.0.1:{free_port()}/", world.topology)
    subscription = await bus.subscribe(world.first, when_ready=always)

    [outcome] = await bus.publish([world.message()])

    assert isinstance(outcome, BusAway)
    assert not await bus.is_up()
    with pytest.raises(BusAway):
        await bus.declare()
    with pytest.raises(BusAway):
        await bus.depths()
    await bus.publish_transient([world.message("position")])
    await subscription.close()
    await bus.close()


async def test_transient_messages_reach_only_transient_queues(world: World) -> None:
    bus = world.bus()
    subscription = await world.subscribe(bus, world.positions)
    position = world.message("position")
    await bus.publish_transient([world.message(), position])

    [delivery] = await take(subscription, 1)

    assert delivery.message == position.with_headers(sent_at=delivery.message.headers.sent_at)
    assert delivery.stale_at < asyncio.get_running_loop().time() + 30
    assert set((await bus.depths()).values()) == {0}


async def is_down(bus: RabbitMqBus) -> bool:
    return not await bus.is_up()


async def test_is_up_does_not_wait_for_a_hanging_broker(world: World) -> None:
    bus = world.bus()
    assert await bus.is_up()

    world.broker.pause()
    try:
        await until(partial(is_down, bus))  # a signal needs some time to stop all of a broker's threads
        assert bus._asking is not None
        assert not bus._asking.done(), "the question is still open; the answer to us was not"
    finally:
        world.broker.resume()

    await until(bus.is_up)
