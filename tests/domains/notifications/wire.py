"""Raw WebSockets: handshakes and frames that no client library sends."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.http import Answer, Line

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
CONTINUED = 0
UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def head(*lines: str, target: str = "/v1/ws", host: str = "catraca.test") -> bytes:
    """A handshake with these additional headers."""
    more = "".join(f"{line}\r\n" for line in lines)
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + UPGRADE + more.encode() + b"\r\n"


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, first_bits: int = 0) -> bytes:
    """A client frame, masked with zeros."""
    length = len(payload)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 2**16:
        size = b"\xfe" + struct.pack("!H", length)
    else:
        size = b"\xff" + struct.pack("!Q", length)
    return bytes([0x80 * fin | first_bits | opcode]) + size + b"\0\0\0\0" + payload


class Wire(Line):
    """A connection on which the test opens a WebSocket itself."""

    async def opened(self, authorization: str) -> None:
        self.send(head(f"Authorization: {authorization}"))
        assert (await self.answer()).status == 101
        opcode, _ = await self.frame()
        assert opcode == TEXT, "the greeting"

    async def frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        length = second
        if second == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif second == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        return first & 0x0F, await self._reader.readexactly(length)

    async def closed(self) -> tuple[int, str]:
        """Wait until the server closes the connection; returns its code and reason."""
        while (found := await self.frame())[0] != CLOSE:
            pass
        payload = found[1]
        await self.push(frame(CLOSE, payload))
        assert await self.closed_by_server() == b""
        return struct.unpack("!H", payload[:2])[0], payload[2:].decode()

    async def push(self, data: bytes) -> bool:
        """Send and flush; return False if the connection is closed."""
        with suppress(ConnectionError):
            self.send(data)
            await self._writer.drain()
            return not self._writer.transport.is_closing()
        return False


@asynccontextmanager
async def wire_to(port: int, *, narrow: bool = False) -> AsyncIterator[Wire]:
    """`narrow`: with small buffers, which fill up soon."""
    async with asyncio.timeout(60):
        link = socket.socket()
        if narrow:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.setblocking(False)
        await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=link, limit=2**12 if narrow else 2**16)
        wire = Wire(reader, writer)
        try:
            yield wire
        finally:
            writer.transport.abort()
            await wire.hang_up()


async def answer_to(port: int, *parts: bytes) -> Answer:
    async with wire_to(port) as wire:
        wire.send(*parts)
        return await wire.answer()
