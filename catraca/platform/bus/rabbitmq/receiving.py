"""Frames as they come, many to one read.

aiormq asks for each frame in three reads and decodes its fields one by one from a description of them, which
takes half of a consumer's time. What it hands on is the same.
"""

import asyncio
import struct
from typing import Any

import aiormq.connection
import pamqp.frame
from aiormq.exceptions import AMQPConnectionError, InvalidFrameError, ProtocolSyntaxError
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.exceptions import PAMQPException

READ_BYTES = 64 * 1024
FRAME_END = 0xCE
METHOD, BODY = 1, 3
DELIVER = b"\x00\x3c\x00\x3c"
_HEAD = struct.Struct(">BHI")
_TAG = struct.Struct(">QB")

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
            return pamqp.frame.unmarshal(bytes(data[start : end + 1]))
        except PAMQPException as error:
            raise InvalidFrameError(str(error)) from error


def _deliver(data: bytes) -> Basic.Deliver:
    at = 1 + data[0]
    consumer = data[1:at]
    tag, redelivered = _TAG.unpack_from(data, at)
    at += _TAG.size
    exchange_end = at + 1 + data[at]
    exchange = data[at + 1 : exchange_end]
    key = data[exchange_end + 1 : exchange_end + 1 + data[exchange_end]]
    # Not by its arguments: it would refuse names that the broker takes.
    frame = Basic.Deliver()
    frame.consumer_tag = consumer.decode("utf-8", "replace")
    frame.delivery_tag = tag
    frame.redelivered = bool(redelivered & 1)
    frame.exchange = exchange.decode("utf-8", "replace")
    frame.routing_key = key.decode("utf-8", "replace")
    return frame
