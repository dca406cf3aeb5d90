"""Frames are read as the codec itself would read them, however the network cuts them."""

import asyncio
from typing import Any
from uuid import uuid4

import pamqp.frame
import pytest
from aiormq.exceptions import AMQPConnectionError, InvalidFrameError, ProtocolSyntaxError
from hypothesis import given
from hypothesis import strategies as st
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from catraca.platform.bus.rabbitmq.lenient import tolerate_foreign_properties
from catraca.platform.bus.rabbitmq.receiving import Receiver

tolerate_foreign_properties()
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
tables = st.dictionaries(
    st.text("abcxyz-", min_size=1, max_size=10),
    st.one_of(names, st.integers(-(2**31), 2**31 - 1), st.booleans()),
)
delivers = st.builds(
    Basic.Deliver,
    consumer_tag=names,
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


def shown(frame: Any) -> object:
    if isinstance(frame, ContentHeader):
        return frame.body_size, {name: getattr(frame.properties, name) for name in Basic.Properties.__slots__}
    if isinstance(frame, ContentBody):
        return frame.value
    return type(frame), {name: getattr(frame, name) for name in getattr(frame, "__slots__", ())}


def receiver(*pieces: bytes) -> Receiver:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return Receiver(reader)


class Dripping:
    """A reader that gives so many bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._pieces = [data[start : start + size] for start in range(0, len(data), size)]

    async def read(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@given(sent=st.lists(st.tuples(frames, st.integers(0, 65535)), max_size=6), size=st.integers(1, 200))
def test_frames_are_those_the_codec_reads_however_they_are_cut(
    sent: list[tuple[Any, int]], size: int
) -> None:
    wire = [pamqp.frame.marshal(frame, channel) for frame, channel in sent]

    async def read() -> list[tuple[int, int, Any]]:
        return [frame async for frame in Receiver(Dripping(b"".join(wire), size))]  # type: ignore[arg-type]

    expected = [pamqp.frame.unmarshal(data) for data in wire]
    found = asyncio.run(read())
    assert [(length, channel) for length, channel, _ in found] == [(n, channel) for n, channel, _ in expected]
    assert [shown(frame) for _, _, frame in found] == [shown(frame) for _, _, frame in expected]


async def test_what_breaks_off_within_a_frame_is_a_lost_connection() -> None:
    whole = pamqp.frame.marshal(ContentBody(b"abc"), 1)
    broken = receiver(whole, whole[:-1])
    assert (await broken.get_frame())[2].value == b"abc"
    with pytest.raises(AMQPConnectionError):
        await broken.get_frame()


async def test_what_is_no_frame_is_refused() -> None:
    whole = pamqp.frame.marshal(ContentBody(uuid4().bytes), 1)
    with pytest.raises(InvalidFrameError):
        await receiver(whole[:-1] + b"\0").get_frame()
    with pytest.raises(InvalidFrameError):
        await receiver(b"\x09\x00\x01\x00\x00\x00\x01x\xce").get_frame()
    with pytest.raises(ProtocolSyntaxError):
        await receiver(b"AMQP\x00\x00\x09\x01").get_frame()


async def test_a_header_that_ends_too_early_is_refused() -> None:
    properties = Basic.Properties(content_type="a", headers={}, delivery_mode=2, message_id="b")
    whole = pamqp.frame.marshal(ContentHeader(properties=properties), 1)
    size = len(whole) - 8 - 2
    with pytest.raises(InvalidFrameError):
        await receiver(whole[:3] + size.to_bytes(4) + whole[7 : 7 + size] + b"\xce").get_frame()
