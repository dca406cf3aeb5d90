"""Messages of other programs: they are received, recognised, and harm no other message."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pamqp.frame
import pytest
from aiormq.abc import ChannelFrame, DeliveredMessage
from aiormq.channel import Channel
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from catraca.platform.bus import Queue
from catraca.platform.bus.rabbitmq.codec import decode
from tests.platform.bus.rabbitmq.world import World, take
from tests.support.examples import examples

pytestmark = pytest.mark.xdist_group("rabbitmq")

BODY = b"somebody else's"


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"message_id": ""}, "missing_id"),
        ({"message_id": "42"}, "bad_id"),
        ({"headers": {"x-seq": "first"}}, "bad_headers"),
        ({"headers": {"x-aggregate-id": "no uuid"}}, "bad_headers"),
        ({"headers": {"x-retries": -1}}, "bad_headers"),
        ({"headers": {"x-trace": [{"a": 1}]}}, "bad_headers"),
        ({"headers": {"x-queue": 7, "x-death": "never"}}, "bad_headers"),
    ],
)
async def test_foreign_message_is_detected_and_dead_lettered(
    world: World, stranger: Channel, properties: dict[str, Any], code: str
) -> None:
    bus = world.bus()
    first, letters = await world.subscribe(bus, world.first), await world.subscribe(bus, world.letters)
    await bus.declare()
    await _publish(stranger, world, properties)

    [found] = await take(first, 1)
    assert found.unreadable == code
    assert (found.message.exchange, found.message.key) == (world.exchange, "ride.requested")
    await first.give_back([found])
    [again] = await take(first, 1)
    assert again.message.id == found.message.id
    await first.dead_letter(again, reason=code)

    [letter] = await take(letters, 1)
    assert letter.unreadable is None
    assert (letter.message.headers.queue, letter.message.headers.reason) == (world.first.name, code)
    assert (letter.message.id, letter.message.body) == (found.message.id, BODY)


def _bad_header_name(payload: bytes) -> bytes:
    return payload.replace(b"odd-name", b"odd-nam\xff")


def _bad_key(payload: bytes) -> bytes:
    return payload.replace(b"ride.requested", b"ride.requeste\xff")


def _bad_id(payload: bytes) -> bytes:
    return payload.replace(b"0000-0000", b"0000\xff0000")


def _far_future(payload: bytes) -> bytes:
    return payload.replace((1_000_000_000).to_bytes(8), b"\x7f" + b"\xff" * 7)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [(_bad_header_name, "bad_headers"), (_bad_key, None), (_bad_id, "bad_id"), (_far_future, "bad_headers")],
)
async def test_undecodable_bytes_do_not_end_the_consumers(
    world: World, stranger: Channel, spoil: Callable[[bytes], bytes], code: str | None
) -> None:
    bus = world.bus()
    first, second = await world.subscribe(bus, world.first), await world.subscribe(bus, world.second)
    await bus.declare()
    other = world.message()
    await bus.publish([other])
    [in_hand] = await take(second, 1)
    await first.done(await take(first, 1))

    long_ago = datetime.fromtimestamp(1_000_000_000).astimezone()
    properties = {"timestamp": long_ago, "headers": {"odd-name": 1, "when": long_ago}}
    await _publish(stranger, world, properties, spoil)

    [found] = await take(first, 1)
    assert found.unreadable == code
    assert found.message.body == BODY
    assert not in_hand.lapsed


async def test_dead_letter_queue_accepts_foreign_messages(world: World, stranger: Channel) -> None:
    bus = world.bus()
    letters = await world.subscribe(bus, world.letters)
    await bus.declare()
    for properties in (Basic.Properties(message_id="7"), Basic.Properties(message_id="8")):
        await stranger.basic_publish(BODY, exchange=world.dlx, routing_key="any", properties=properties)

    taken = await take(letters, 2)

    assert [letter.unreadable for letter in taken] == [None, None]
    assert [letter.message.headers.queue for letter in taken] == [world.letters.name] * 2
    assert [letter.message.headers.reason for letter in taken] == ["bad_id", "bad_id"]


async def _publish(
    stranger: Channel,
    world: World,
    properties: dict[str, Any],
    spoil: Callable[[bytes], bytes] = bytes,
) -> None:
    """Publish raw frames, which `spoil` may change."""
    properties = {"message_id": "00000000-0000-0000-0000-000000000001", **properties}
    frames = [
        Basic.Publish(exchange=world.exchange, routing_key="ride.requested"),
        ContentHeader(properties=Basic.Properties(**properties), body_size=len(BODY)),
        ContentBody(BODY),
    ]
    payload = spoil(b"".join(pamqp.frame.marshal(frame, stranger.number) for frame in frames))
    await stranger.write_queue.put(ChannelFrame(payload=payload, should_close=False))


_DURABLE = Queue(name="durable", binds=(), role="tester", does="nothing")
_TRANSIENT = Queue(name="transient", binds=(), role="tester", does="nothing", transient_seconds=1)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.binary(max_size=9) | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_names = st.sampled_from(
    [
        "aggregate-id",
        "seq",
        "round",
        "version",
        "trace",
        "retries",
        "queue",
        "reason",
        "exchange",
        "key",
        "death",
    ]
).map("x-{}".format) | st.just("x-sent-at")
_deaths = st.fixed_dictionaries({"queue": _values, "reason": _values, "routing-keys": _values})


@settings(max_examples=examples(60), deadline=None)
@given(
    message_id=st.none() | st.text() | st.uuids().map(str),
    table=st.none() | st.dictionaries(_names, _values | st.lists(_deaths)),
    body=st.binary(),
    transient=st.booleans(),
)
def test_decoding_never_fails(
    message_id: str | None, table: dict[str, Any] | None, body: bytes, transient: bool
) -> None:
    queue = _TRANSIENT if transient else _DURABLE
    arrived = DeliveredMessage(
        delivery=Basic.Deliver("tag", 7, False, "exchange", "key"),
        header=ContentHeader(properties=Basic.Properties(message_id=message_id, headers=table)),
        body=body,
        channel=None,  # type: ignore[arg-type]
    )

    delivery = decode(queue, arrived)

    assert delivery.message.body == body
    assert isinstance(delivery.message.id, UUID)
    assert decode(queue, arrived).message.id == delivery.message.id
    assert isinstance(delivery.message.key, str)
