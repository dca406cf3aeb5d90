"""One WebSocket connection to the server."""

import asyncio
from itertools import count
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from catraca.client.errors import LiveEnded, Refused
from catraca.client.http import RETRY_STATUSES, is_local, refusal_in, retry_after_seconds

OPEN_SECONDS = 15.0
CLOSE_SECONDS = 2.0
# Two heartbeats may be missing, plus a margin for a slow network.
HEARTBEATS_MISSING = 2
SLOW_NETWORK_SECONDS = 2.0
FRAME_BYTES = 1024 * 1024
UNAUTHORIZED = 401
# Close codes after which a new connection would be closed in the same way.
FINAL_CODES = frozenset({1003, 1007, 1009, 4400, 4409})
TOKEN_REFUSED = 4401
TOO_MANY_MESSAGES = 4429
SLOWER_SECONDS = 5.0


class ConnectionLost(Exception):
    """The connection is lost; a new one may be opened, after some seconds or with another token."""

    def __init__(
        self, why: str, *, reconnect_after_seconds: float = 0.0, token_refused: Exception | None = None
    ) -> None:
        super().__init__(why)
        self.reconnect_after_seconds = reconnect_after_seconds
        # Raised if there is no other token.
        self.token_refused = token_refused


class Frame(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, Any] = {}
    seq: int | None = None
    id: str | None = None


class Hello(msgspec.Struct, frozen=True):
    seq: int
    heartbeat_seconds: float


class Connection:
    """A request gets its reply on the same connection, or raises `ConnectionLost`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket: Final = socket
        self._silence_seconds = OPEN_SECONDS
        self._reconnect_after_seconds = 0.0
        self._ids: Final = count(1)
        self._requested: Final[dict[str, asyncio.Future[dict[str, Any]]]] = {}
        self.hello = Hello(0, OPEN_SECONDS)

    @classmethod
    async def open(cls, url: str, *, token: str, since: int | None, language: str | None) -> "Connection":
        """Connect and wait for `hello`; raises `ConnectionLost` if a retry may help, `Refused` if not."""
        headers = {"authorization": f"Bearer {token}", **({"accept-language": language} if language else {})}
        address = f"ws{url.removeprefix('http')}/v1/ws" + ("" if since is None else f"?since={since}")
        try:
            socket = await connect(
                address,
                additional_headers=headers,
                open_timeout=OPEN_SECONDS,
                close_timeout=CLOSE_SECONDS,
                max_size=FRAME_BYTES,
                compression=None,
                # The heartbeats of the server are used instead.
                ping_interval=None,
                proxy=None if is_local(url) else True,
            )
        except InvalidStatus as error:
            response = error.response
            refusal = refusal_in(response.status_code, bytes(response.body))
            raise _lost_or_refused(refusal, response.headers.get("retry-after")) from None
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(str(error) or type(error).__name__) from error
        connection = cls(socket)
        try:
            await connection.greet()
        except BaseException:
            connection.cut()
            raise
        return connection

    async def greet(self) -> None:
        """Wait for the `hello` frame."""
        first = await self._receive()
        if first.type != "hello":
            raise ConnectionLost(f"the first frame is {first.type}, not hello")
        try:
            self.hello = msgspec.convert(first.data, Hello)
        except msgspec.ValidationError as error:
            raise ConnectionLost(f"the hello frame is invalid: {error}") from error
        self._silence_seconds = self.hello.heartbeat_seconds * HEARTBEATS_MISSING + SLOW_NETWORK_SECONDS

    async def next_frame(self) -> Frame:
        """The next message, without replies and heartbeats. Raises `ConnectionLost` or `LiveEnded`."""
        while True:
            frame = await self._receive()
            if frame.type == "goodbye":
                self._reconnect_after_seconds = float(frame.data.get("reconnect_after_seconds", 0.0))
            elif frame.type in ("reply", "error") and frame.id is not None:
                self._resolve(frame)
            elif frame.type != "heartbeat":
                return frame

    async def request(self, kind: str, data: object = None) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        name = str(next(self._ids))
        reply = self._requested[name] = asyncio.get_running_loop().create_future()
        try:
            await self.send(kind, data, name=name)
            return await reply
        finally:
            self._requested.pop(name, None)

    async def send(self, kind: str, data: object = None, *, name: str | None = None) -> None:
        """Send a command; without a name there is no reply, and a refusal arrives as a message."""
        message = {
            "type": kind,
            **({} if data is None else {"data": data}),
            **({} if name is None else {"id": name}),
        }
        try:
            await self._socket.send(msgspec.json.encode(message).decode())
        except ConnectionClosed as closed:
            raise ConnectionLost(str(closed)) from closed

    async def close(self) -> None:
        """Close the connection; open requests raise `ConnectionLost`."""
        for reply in self._requested.values():
            if not reply.done():
                reply.set_exception(ConnectionLost("the connection was lost before the reply came"))
        await self._socket.close()

    def cut(self) -> None:
        """Break the connection as a bad network does: without a close frame."""
        self._socket.transport.abort()

    async def _receive(self) -> Frame:
        try:
            async with asyncio.timeout(self._silence_seconds):
                text = await self._socket.recv()
            return msgspec.json.decode(text, type=Frame)
        except TimeoutError:
            self.cut()
            raise ConnectionLost(f"no frame for {self._silence_seconds:g} s") from None
        except msgspec.MsgspecError as error:
            self.cut()
            raise ConnectionLost(f"a frame is invalid: {error}") from error
        except ConnectionClosed as closed:
            raise self._end(closed) from None

    def _end(self, closed: ConnectionClosed) -> Exception:
        if closed.rcvd is None:
            return ConnectionLost(
                "the connection broke", reconnect_after_seconds=self._reconnect_after_seconds
            )
        code, reason = closed.rcvd.code, closed.rcvd.reason
        if code in FINAL_CODES:
            return LiveEnded(code, reason)
        if code == TOKEN_REFUSED:
            return ConnectionLost(reason, token_refused=LiveEnded(code, reason))
        slower_seconds = SLOWER_SECONDS if code == TOO_MANY_MESSAGES else 0.0
        return ConnectionLost(
            f"the server closed: {code} {reason}",
            reconnect_after_seconds=max(self._reconnect_after_seconds, slower_seconds),
        )

    def _resolve(self, frame: Frame) -> None:
        reply = self._requested.pop(frame.id or "", None)
        if reply is None or reply.done():
            return
        if frame.type == "reply":
            reply.set_result(frame.data)
        else:
            data = dict(frame.data)
            refusal = data.pop("status", 400), data.pop("code", "unknown"), data.pop("detail", "")
            reply.set_exception(Refused(*refusal, data))


def _lost_or_refused(refusal: Refused, retry_after: str | None) -> Exception:
    if refusal.status in RETRY_STATUSES:
        return ConnectionLost(str(refusal), reconnect_after_seconds=retry_after_seconds(retry_after))
    if refusal.status == UNAUTHORIZED:
        return ConnectionLost(str(refusal), token_refused=refusal)
    return refusal
