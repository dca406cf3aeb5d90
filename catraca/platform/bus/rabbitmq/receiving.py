"""Frames as they come, many to one read; messages handed over as they are complete.

aiormq asks for each frame in three reads, decodes its fields one by one from a description of them, and
starts a task for each message: more than half of a consumer's time. What is handed on is the same.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import aiormq.connection
import pamqp.frame
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPConnectionError, InvalidFrameError, ProtocolSyntaxError
from pamqp import decode
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException
from pamqp.header import ContentHeader

READ_BYTES = 64 * 1024
FRAME_END = 0xCE
METHOD, HEADER, BODY = 1, 2, 3
DELIVER = b"\x00\x3c\x00\x3c"
# What messages of ours have: content type, headers, delivery mode and message id, in this order.
USUAL_PROPERTIES = 0xB080
_HEAD = struct.Struct(">BHI")
_TAG = struct.Struct(">QB")
_CONTENT = struct.Struct(">HHQH")

Frame = tuple[int, int, Any]


def receive_quickly() -> None:
    """For every connection made from now on; safe to repeat."""
    aiormq.connection.FrameReceiver = Receiver  # pyright: ignore[reportAttributeAccessIssue]


class Receiver:
    """Of one connection; ends when the server has closed it between two frames."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._data = bytearray()
        self._place = 0
        self._started = False

    def __aiter__(self) -> "Receiver":
        return self

    async def __anext__(self) -> Frame:
        return await self.get_frame()

    async def get_frame(self) -> Frame:
        while (frame := self._next()) is None:
            del self._data[: self._place]
            self._place = 0
            try:
                read = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise AMQPConnectionError(f"Server communication error: {error!r}") from error
            if not read:
                if self._data:
                    raise AMQPConnectionError("Server connection unexpectedly closed")
                raise StopAsyncIteration
            self._data += read
        return frame

    def _next(self) -> Frame | None:
        """The next frame, if all of it is there."""
        data, start = self._data, self._place
        if len(data) < start + _HEAD.size:
            return None
        if not self._started and data.startswith(b"AMQP"):
            raise ProtocolSyntaxError("Unexpected AMQP protocol header")
        self._started = True
        kind, channel, size = _HEAD.unpack_from(data, start)
        end = start + _HEAD.size + size
        if len(data) <= end:
            return None
        if data[end] != FRAME_END:
            raise InvalidFrameError("a frame without its end")
        self._place = end + 1
        body = start + _HEAD.size
        if kind == BODY:
            return size + 8, channel, ContentBody(bytes(data[body:end]))
        if kind == METHOD and data.startswith(DELIVER, body):
            return size + 8, channel, _deliver(bytes(data[body + len(DELIVER) : end]))
        try:
            if kind == HEADER and (header := _usual_header(bytes(data[body:end]))) is not None:
                return size + 8, channel, header
            return pamqp.frame.unmarshal(bytes(data[start : end + 1]))
        except (PAMQPException, IndexError) as error:
            raise InvalidFrameError(str(error)) from error


def deliver_directly(channel: Channel, hand_over: Callable[[DeliveredMessage], None]) -> None:
    """Hand this channel's messages over as they are complete, to something that only takes note of them."""
    frames = cast(Any, channel)

    async def on_deliver(delivery: Basic.Deliver) -> None:
        header = await frames._get_frame()  # noqa: SLF001
        if not isinstance(header, ContentHeader):
            raise InvalidFrameError("a message without its header")
        body = b""
        while len(body) < header.body_size:
            part = await frames._get_frame()  # noqa: SLF001
            if not isinstance(part, ContentBody):
                raise InvalidFrameError("a message without all of its body")
            body += part.value
        if delivery.consumer_tag in channel.consumers:
            hand_over(DeliveredMessage(delivery=delivery, header=header, body=body, channel=channel))

    frames._on_deliver_frame = on_deliver  # noqa: SLF001


def _usual_header(data: bytes) -> ContentHeader | None:
    """None for one that has more or less than messages of ours."""
    if len(data) < _CONTENT.size:
        return None
    _, weight, size, flags = _CONTENT.unpack_from(data)
    if flags != USUAL_PROPERTIES:
        return None
    properties = Basic.Properties()
    at, properties.content_type = _short_text(data, _CONTENT.size)
    length, headers = decode.by_type(data[at:], "table")
    properties.headers = cast(dict[str, Any], headers)
    at += length
    properties.delivery_mode = data[at]
    _, properties.message_id = _short_text(data, at + 1)
    return ContentHeader(weight, size, properties)


def _short_text(data: bytes, start: int) -> tuple[int, str]:
    """With where the next one begins."""
    end = start + 1 + data[start]
    return end, data[start + 1 : end].decode("utf-8", "replace")


def _deliver(data: bytes) -> Basic.Deliver:
    frame = Basic.Deliver()  # not by its arguments: it would refuse names that the broker takes
    at, frame.consumer_tag = _short_text(data, 0)
    frame.delivery_tag, bits = _TAG.unpack_from(data, at)
    frame.redelivered = bool(bits & 1)
    at, frame.exchange = _short_text(data, at + _TAG.size)
    _, frame.routing_key = _short_text(data, at)
    return frame
