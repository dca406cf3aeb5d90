"""Frames pass as they are if pamqp can decode them, however the network cuts them."""

import asyncio
from typing import Any

import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from catraca.platform.bus.rabbitmq.frame_filter import UNREADABLE, FrameFilter, decodable

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
moments = st.datetimes(timezones=st.timezones())
tables = st.recursive(
    st.dictionaries(
        st.text("abcxyz-", min_size=1, max_size=10),
        st.one_of(names, st.integers(-(2**31), 2**31 - 1), st.booleans()),
        max_size=3,
    ),
    lambda inner: st.dictionaries(
        st.text("abc", min_size=1, max_size=3), inner | st.lists(inner), max_size=2
    ),
    max_leaves=3,
)
delivers = st.builds(
    Basic.Deliver,
    consumer_tag=st.text("abc.019", max_size=30),
    delivery_tag=st.integers(0, 2**62),
    redelivered=st.booleans(),
    exchange=st.text("abcXYZ019-_.:", max_size=30),
    routing_key=names,
)
usual = st.builds(
    Basic.Properties,
    content_type=st.just("application/json"),
    headers=tables,
    delivery_mode=st.sampled_from([1, 2]),
    message_id=st.uuids().map(str),
)
foreign = st.builds(
    Basic.Properties, headers=st.none() | tables, message_id=names, priority=st.integers(0, 9), reply_to=names
)
headers = st.builds(ContentHeader, body_size=st.integers(0, 2**40), properties=usual | foreign)
frames = st.one_of(delivers, headers, st.builds(ContentBody, st.binary(min_size=1)), st.just(Heartbeat()))


class NoTransport(asyncio.Transport):
    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


async def filtered(*pieces: bytes) -> bytes:
    """What aiormq reads when the socket receives these pieces."""
    reader = asyncio.StreamReader(limit=2**30)
    protocol = FrameFilter(reader)
    protocol.connection_made(NoTransport())
    for piece in pieces:
        protocol.data_received(piece)
    reader.feed_eof()
    return await reader.read()


@given(sent=st.lists(st.tuples(frames, st.integers(0, 65535)), max_size=6), size=st.integers(1, 200))
def test_decodable_frames_pass_unchanged(sent: list[tuple[Any, int]], size: int) -> None:
    wire = b"".join(pamqp.frame.marshal(frame, channel) for frame, channel in sent)
    pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
    assert asyncio.run(filtered(*pieces)) == wire


async def test_an_incomplete_frame_is_held_back() -> None:
    whole = pamqp.frame.marshal(ContentBody(b"abc"), 1)
    assert await filtered(whole + whole[:-1]) == whole


def decoded(frame: bytes) -> Any:
    with pytest.raises((PAMQPException, OverflowError, RecursionError)):
        pamqp.frame.unmarshal(frame)
    used, channel, found = pamqp.frame.unmarshal(mended := decodable(frame))
    assert (used, channel) == (len(mended), 7)
    return found


def header_frame(**properties: Any) -> bytes:
    return pamqp.frame.marshal(ContentHeader(body_size=300, properties=Basic.Properties(**properties)), 7)


def test_only_the_bad_property_is_replaced() -> None:
    frame = header_frame(
        content_type="text/plain", headers={"x-seq": 3}, delivery_mode=2, message_id="id-z", app_id="ours"
    )
    header = decoded(frame.replace(b"id-z", b"id-\xff"))
    assert header.body_size == 300
    assert header.properties == Basic.Properties(
        content_type="text/plain", headers={"x-seq": 3}, delivery_mode=2, message_id="id-?", app_id="ours"
    )


@pytest.mark.parametrize("bad", [b"odd-nam\xff", b"odd\xff\xffame"])
def test_a_bad_table_is_replaced_by_a_mark(bad: bytes) -> None:
    header = decoded(header_frame(headers={"odd-name": 1}, message_id="an id").replace(b"odd-name", bad))
    assert header.properties.headers == {UNREADABLE: True}
    assert header.properties.message_id == "an id"


def test_a_table_that_is_nested_too_deep_is_replaced() -> None:
    table = b""
    for _ in range(2000):
        entry = b"\x01aF" + len(table).to_bytes(4) + table
        table = entry
    whole = len(table).to_bytes(4) + table
    payload = bytes.fromhex("003c0000") + (300).to_bytes(8) + (0x2000).to_bytes(2) + whole
    frame = b"\x02\x00\x07" + len(payload).to_bytes(4) + payload + b"\xce"
    assert decoded(frame).properties.headers == {UNREADABLE: True}


def test_a_timestamp_beyond_the_calendar_is_replaced() -> None:
    payload = (
        bytes.fromhex("003c0000") + (300).to_bytes(8) + (0x00C0).to_bytes(2) + b"\x05an id" + b"\x7f" * 8
    )
    frame = b"\x02\x00\x07" + len(payload).to_bytes(4) + payload + b"\xce"
    properties = decoded(frame).properties
    assert properties.message_id == "an id"
    assert properties.timestamp.year == 1970


def test_bad_names_of_a_delivery_are_replaced() -> None:
    frame = pamqp.frame.marshal(Basic.Deliver("ctag", 2**40 + 255, True, "rides.events", "ride.requested"), 7)
    deliver = decoded(frame.replace(b"requested", b"r\xffquest\xfe\xff"))
    assert (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered) == ("ctag", 2**40 + 255, True)
    assert (deliver.exchange, deliver.routing_key) == ("rides.events", "ride.r?quest??")
