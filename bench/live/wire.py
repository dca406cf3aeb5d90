"""A minimal WebSocket client: receives texts and answers pings.

Libraries need longer to receive a frame than the servers to send it.
"""

import asyncio
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

OPEN_SECONDS = 30
OPENED_AT_ONCE = 50
TEXT, PING, CLOSE = 1, 9, 8
# A mask of zeros is valid and leaves the text unchanged.
MASKED, NO_MASK = 0x80, bytes(4)

Hear = Callable[[bytes], None]


class Wire(asyncio.Protocol):
    def __init__(self, request: bytes, hear: Hear) -> None:
        self._request = request
        self._hear = hear
        self._unread = b""
        self._transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if not self.opened.done():
            head, end, rest = self._unread.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(self._unread.decode())
            self._unread = rest
            self.opened.set_result(None)
        self._read_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionError("no socket was opened"))

    def send_text(self, text: bytes, kind: int = TEXT) -> None:
        assert self._transport is not None
        size = len(text)
        length = bytes([MASKED | size]) if size < 126 else bytes([MASKED | 126]) + size.to_bytes(2)
        self._transport.write(bytes([0x80 | kind]) + length + NO_MASK + text)

    def hang_up(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def _read_frames(self) -> None:
        unread, at = self._unread, 0
        while len(unread) - at >= 2:
            size, start = unread[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(unread[at + 2 : at + 4]), at + 4
            if len(unread) < start + size:
                break
            kind, text = unread[at] & 0x0F, unread[start : start + size]
            at = start + size
            if kind == TEXT:
                self._hear(text)
            elif kind == PING:
                self.send_text(text, kind=10)
            elif kind == CLOSE:
                raise RuntimeError(f"closed by the server: {text!r}")
        self._unread = unread[at:]


async def open_wires(url: str, tokens: list[str], hears: list[Hear]) -> list[Wire]:
    """Open one socket per token, some at a time."""
    gate = asyncio.Semaphore(OPENED_AT_ONCE)

    async def open_one(token: str, hear: Hear) -> Wire:
        async with gate:
            address = urlsplit(url)
            request = (
                f"GET {address.path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n"
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
                "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            ).encode()
            loop = asyncio.get_running_loop()
            _, wire = await loop.create_connection(
                lambda: Wire(request, hear), address.hostname, address.port
            )
            async with asyncio.timeout(OPEN_SECONDS):
                await wire.opened
            return wire

    return await asyncio.gather(*(open_one(*one) for one in zip(tokens, hears, strict=True)))
