"""Consuming as RabbitMQ does it: lost channels, forgotten consumers, retries and deaths."""

import asyncio
from dataclasses import replace

import aiormq
import msgspec
import pytest
from aiormq.abc import AbstractChannel
from aiormq.channel import Channel

from catraca.platform.bus.rabbitmq import session as session_module
from catraca.platform.bus.rabbitmq import subscription as subscribing
from catraca.platform.bus.rabbitmq.connection import RECONNECTIONS
from catraca.platform.bus.rabbitmq.session import Session
from catraca.platform.bus.rabbitmq.subscription import RECYCLED
from tests.platform.bus.rabbitmq.world import World, take
from tests.rabbitmq import RabbitMq
from tests.servers import until

pytestmark = pytest.mark.xdist_group("rabbitmq")


async def test_retry_returns_only_to_the_queue_that_failed(world: World) -> None:
    bus = world.bus()
    first, second = await world.subscribe(bus, world.first), await world.subscribe(bus, world.second)
    message = world.message()
    await bus.publish([message])
    await second.done(await take(second, 1))

    [delivery] = await take(first, 1)
    await first.retry(delivery, delay_seconds=0.2, reason="ValueError")
    [again] = await take(first, 1)
    await first.retry(again, delay_seconds=0.3, reason="KeyError")  # a delay that is not configured
    [once_more] = await take(first, 1)

    assert again.message == message.with_headers(retries=1, retry_reason="ValueError")
    assert once_more.message == message.with_headers(retries=2, retry_reason="KeyError")
    await first.done([once_more])
    left = await world.left(first, second)
    assert (left[world.first.name], left[world.second.name]) == (0, 0)


async def test_a_dead_letter_names_its_queue_and_message(world: World) -> None:
    bus = world.bus()
    first, letters = await world.subscribe(bus, world.first), await world.subscribe(bus, world.letters)
    message = world.message()
    await bus.publish([message])

    await first.dead_letter((await take(first, 1))[0], reason="Boom")

    [letter] = await take(letters, 1)
    assert letter.message == message.with_headers(queue=world.first.name, reason="Boom")
    assert (await world.left(first))[world.first.name] == 0


@pytest.mark.parametrize("retried", [False, True])
async def test_broker_dead_letters_a_message_that_kills_consumers(world: World, retried: bool) -> None:
    bus = world.bus(delivery_limit=2)
    first, letters = await world.subscribe(bus, world.first), await world.subscribe(bus, world.letters)
    message = world.message()
    await bus.publish([message])
    expected = message.with_headers(queue=world.first.name, reason="delivery_limit")
    if retried:
        await first.retry((await take(first, 1))[0], delay_seconds=0.2, reason="ValueError")
        expected = expected.again("ValueError")

    for _ in range(3):
        await first.give_back(await take(first, 1))

    [letter] = await take(letters, 1)
    assert letter.message == expected
    await letters.retry(letter, delay_seconds=0.2, reason="KeyError")
    [again] = await take(letters, 1)
    assert again.message == expected.again("KeyError")


async def test_acknowledging_some_never_acknowledges_the_others(world: World) -> None:
    bus = world.bus()
    first = await world.subscribe(bus, world.first)
    await bus.publish([world.message() for _ in range(10)])
    taken = await take(first, 10)

    await first.done([taken[8], taken[1], taken[0]])
    await first.done([taken[2], taken[5]])
    await first.give_back([taken[3]])
    [returned] = await take(first, 1)
    await first.done([taken[6], returned])
    await first.close()

    left = await take(await world.subscribe(bus, world.first), 3)
    assert {one.message.id for one in left} == {taken[place].message.id for place in (4, 7, 9)}


async def test_a_stop_returns_waiting_messages_and_keeps_those_in_work(
    world: World,
) -> None:
    bus = world.bus()
    first = await world.subscribe(bus, world.first)
    await bus.publish([world.message() for _ in range(6)])
    in_hand = await take(first, 2)

    first.stop_taking()
    assert await first.next(10) == []
    other = await world.subscribe(bus, world.first)
    waiting = await take(other, 4)
    await first.done(in_hand)
    await other.done(waiting)

    assert not any(delivery.lapsed for delivery in in_hand)
    assert (await world.left(first, other))[world.first.name] == 0


async def test_a_lost_connection_redelivers_all_held_messages(world: World, broker: RabbitMq) -> None:
    bus = world.bus()
    first, letters = await world.subscribe(bus, world.first), await world.subscribe(bus, world.letters)
    await bus.publish([world.message() for _ in range(5)])
    taken = await take(first, 3)
    before = RECONNECTIONS.labels("consuming")._value.get()

    await world.broker.ctl("close_all_connections", "the test says so")
    await until(lambda: all(delivery.lapsed for delivery in taken))
    await first.done([taken[0]])
    await first.retry(taken[1], delay_seconds=0.2, reason="ValueError")
    await first.dead_letter(taken[2], reason="Boom")
    await first.give_back(taken)

    again = await take(first, 5)
    assert {one.message.id for one in taken} < {one.message.id for one in again}
    assert not any(delivery.lapsed for delivery in again)
    assert RECONNECTIONS.labels("consuming")._value.get() > before
    await first.done(again)
    # Anything published for the lapsed deliveries would arrive before the next messages.
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    await until(lambda: _is_empty(channel, "retry_200ms"))
    await connection.close()
    last = world.message()
    await bus.publish([last, msgspec.structs.replace(last, exchange=world.dlx)])
    assert [one.message.id for one in await take(first, 1)] == [last.id]
    assert [one.message.id for one in await take(letters, 1)] == [last.id]


async def test_a_deleted_queue_is_made_again_and_consumed(world: World, stranger: Channel) -> None:
    bus = world.bus()
    first = await world.subscribe(bus, world.first)
    await bus.publish([world.message()])
    [delivery] = await take(first, 1)

    await stranger.queue_delete(world.first.name)
    await until(lambda: delivery.lapsed)

    # Until the queue exists again, only `second` gets the messages.
    await until(lambda: _exists(world.broker, world.first.name))
    message = world.message()
    assert await bus.publish([message]) == [None]
    assert [one.message for one in await take(first, 1)] == [message]


async def test_a_consumer_lost_by_the_broker_is_restarted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribing, "WATCH_SECONDS", 0.3)
    bus = world.bus()
    first = await world.subscribe(bus, world.first)
    await bus.publish([world.message()])
    await first.done(await take(first, 1))
    before = RECYCLED.labels(world.first.name)._value.get()

    await world.broker.ctl("eval", FORGET % world.first.name)
    message = world.message()
    await bus.publish([message])

    [delivery] = await take(first, 1)
    assert delivery.message == message
    assert RECYCLED.labels(world.first.name)._value.get() == before + 1


# The queue drops its consumers without notifying their channels, as after a lost message inside a cluster.
FORGET = """
    {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
    [begin
        {ok, _, _} = ra:process_command(
            amqqueue:get_pid(Q), rabbit_fifo:make_checkout({element(2, C), element(1, C)}, cancel, #{}))
     end || C <- rabbit_amqqueue:consumers(Q)].
"""


async def test_standby_consumer_is_not_restarted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "WATCH_SECONDS", 0.1)
    queue = replace(world.first, single_active=True, prefetch=1)
    bus = world.bus(queues=(queue, world.letters))
    active = await world.subscribe(bus, queue)
    await bus.publish([world.message()])
    [in_hand] = await take(active, 1)
    standby = await world.subscribe(bus, queue)
    await bus.publish([world.message() for _ in range(3)])
    before = RECYCLED.labels(queue.name)._value.get()

    looks = 0

    async def looked_at_often(connection: object, name: str) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return await count_messages(connection, name)

    count_messages = session_module.count_messages
    monkeypatch.setattr(session_module, "count_messages", looked_at_often)
    await until(lambda: looks > 5)

    assert RECYCLED.labels(queue.name)._value.get() == before
    await active.done([in_hand])
    await active.close()
    assert len(await take(standby, 1)) == 1


async def test_a_delivery_before_the_consume_confirm_can_be_settled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, start = asyncio.Event(), Session.start

    async def slow_to_hear(session: Session) -> None:
        await start(session)
        await settled.wait()

    monkeypatch.setattr(Session, "start", slow_to_hear)
    bus = world.bus()
    await bus.publish([world.message()])
    first = await world.subscribe(bus, world.first)

    await first.done(await take(first, 1))
    settled.set()

    await first.close()
    assert (await bus.depths())[world.first.name] == 0


async def test_consumption_starts_when_the_handlers_needs_are_up(world: World) -> None:
    bus = world.bus()
    ready, asked = False, 0

    async def when_ready() -> bool:
        nonlocal asked
        asked += 1
        return ready

    subscription = await bus.subscribe(world.first, when_ready=when_ready)
    await bus.publish([world.message()])
    await until(lambda: asked > 2)
    assert (await bus.depths())[world.first.name] == 1

    ready = True
    assert len(await take(subscription, 1)) == 1
    await subscription.close()


async def _exists(broker: RabbitMq, queue: str) -> bool:
    listed = await broker.ctl("list_queues", "name", "--no-table-headers")
    return queue in listed.split()


async def _is_empty(channel: AbstractChannel, queue: str) -> bool:
    return (await channel.queue_declare(queue, passive=True)).message_count == 0
