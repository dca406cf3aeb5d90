"""Makes frames of foreign publishers decodable before aiormq sees them.

pamqp, which decodes for aiormq, refuses a whole frame for one bad value: a header name that is not UTF-8, a
timestamp after the year 9999. aiormq then closes the connection with every consumer on it, and the broker
delivers the same message again on the next one. `FrameFilter` stands between the socket and aiormq and
replaces only the values that cannot be decoded, so such a message arrives and becomes a dead letter.
"""

import asyncio
import struct
from collections.abc import Iterable
from typing import Any

import aiormq
from pamqp import decode, encode
from pamqp.commands import Basic
from yarl import URL

# The header of a message whose own headers cannot be decoded.
UNREADABLE = "x-unreadable"

_HEAD = struct.Struct(">BHI")
_HEAD_SIZE, _END_SIZE = 7, 1
_METHOD, _CONTENT_HEADER = 1, 2
_DELIVER = b"\x00\x3c\x00\x3c"
_DELIVER_FIELDS = ("shortstr", "longlong", "octet", "shortstr", "shortstr")
# Class, weight and body size; then the flags that say which properties follow.
_FLAGS = struct.Struct(">12xH")
# The properties of our own messages: content type, headers, delivery mode, message id, in this order.
_OUR_PROPERTIES = 0xB080
# The types of our own headers: integers by their sizes, and strings.
_INTEGER_SIZES = {ord("b"): 1, ord("B"): 1, ord("s"): 2, ord("u"): 2, ord("I"): 4, ord("i"): 4, ord("l"): 8}
_STRING = ord("S")


class FilteredTransport(aiormq.TransportFactory):
    """Opens the socket of a connection, with a filter on what the broker sends."""

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls: aiormq.SSLContextProvider = kwargs.pop("ssl_context_provider")
        ssl = await tls.get_context() if url.scheme == "amqps" else None
        host, port = str(url.host), int(url.port or 0)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = FrameFilter(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=ssl, **kwargs)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class FrameFilter(asyncio.StreamReaderProtocol):
    """Passes on whole frames only."""

    _rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        passed: list[bytes] = []
        start = place = 0
        while len(data) >= place + _HEAD_SIZE:
            kind, _, size = _HEAD.unpack_from(data, place)
            end = place + _HEAD_SIZE + size + _END_SIZE
            if len(data) < end:
                break
            if kind in (_METHOD, _CONTENT_HEADER):
                frame = data[place:end]
                if (mended := decodable(frame)) is not frame:
                    passed += [data[start:place], mended]
                    start = end
            place = end
        self._rest = data[place:]
        if place:
            super().data_received(b"".join([*passed, data[start:place]]))


def decodable(frame: bytes) -> bytes:
    """The frame as it is if pamqp can decode it; else with other values in place of the bad ones."""
    kind, channel, _ = _HEAD.unpack_from(frame)
    payload = frame[_HEAD_SIZE:-_END_SIZE]
    if kind == _CONTENT_HEADER:
        (flags,) = _FLAGS.unpack_from(payload)
        start = _FLAGS.size
        if flags == _OUR_PROPERTIES and _is_plain(payload, start):
            return frame
        types = [
            Basic.Properties.amqp_type(name) for name, flag in Basic.Properties.flags.items() if flags & flag
        ]
    elif kind == _METHOD and payload.startswith(_DELIVER):
        start = len(_DELIVER)
        names = start + 1 + payload[start] + 9  # after the consumer tag, which is ours, and the delivery tag
        if payload[names:].isascii():
            return frame
        types = _DELIVER_FIELDS
    else:
        return frame
    mended = _mended(payload, start, types)
    return _HEAD.pack(kind, channel, len(mended)) + mended + frame[-_END_SIZE:]


def _is_plain(payload: bytes, start: int) -> bool:
    """True if these properties, in the shape of our own, have only names and values that pamqp decodes."""
    place = start + 1 + payload[start]
    if not payload[start:place].isascii():
        return False
    end = place + 4 + int.from_bytes(payload[place : place + 4])
    place += 4
    while place < end:
        name = place
        place += 1 + payload[place]
        if not payload[name:place].isascii():
            return False
        kind = payload[place]
        if kind == _STRING:
            place += 5 + int.from_bytes(payload[place + 1 : place + 5])
        elif kind in _INTEGER_SIZES:
            place += 1 + _INTEGER_SIZES[kind]
        else:
            return False
    return payload[end:].isascii()


def _mended(payload: bytes, start: int, types: Iterable[str]) -> bytes:
    parts, rest = [payload[:start]], payload[start:]
    for kind in types:
        used, part = _mended_value(rest, kind)
        parts.append(part)
        rest = rest[used:]
    return b"".join([*parts, rest])


def _mended_value(data: bytes, kind: str) -> tuple[int, bytes]:
    """How many bytes the value has, and bytes that can be decoded in its place."""
    try:
        used, _ = decode.by_type(data, kind)
    except (ValueError, OverflowError, OSError, RecursionError, IndexError):
        match kind:
            case "shortstr":
                end = 1 + data[0]
                return end, data[:1] + bytes(byte if byte < 128 else ord("?") for byte in data[1:end])
            case "table":
                return 4 + int.from_bytes(data[:4]), encode.field_table({UNREADABLE: True})
            case _:  # a timestamp
                return 8, bytes(8)
    return used, data[:used]
