"""One socket to the server, from its first frame to its end."""

import asyncio
from itertools import count
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from catraca.client.errors import LiveEnded, Refused
from catraca.client.http import AGAIN_STATUSES, is_local, refusal_in, retry_after_seconds

OPEN_SECONDS = 15.0
CLOSE_SECONDS = 2.0
# Two heartbeats may be missing; the rest is for a slow network.
HEARTBEATS_MISSING = 2
SLOW_NETWORK_SECONDS = 2.0
FRAME_BYTES = 1024 * 1024
UNAUTHORIZED = 401
# How a socket ends: whoever comes back in the same way would end in the same way.
FINAL_CODES = frozenset({1003, 1007, 1009, 4400, 4409})
TOKEN_REFUSED = 4401
TOO_MANY_MESSAGES = 4429
SLOWER_SECONDS = 5.0


class Lost(Exception):
    """The connection is gone, and another may be opened, after some seconds or with another token."""

    def __init__(
        self, why: str, *, come_back_seconds: float = 0.0, token_refused: Exception | None = None
    ) -> None:
        super().__init__(why)
        self.come_back_seconds = come_back_seconds
        # What to raise where there is no other token.
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
    """What is asked on it is answered on it, or `Lost` with it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket: Final = socket
        self._silence_seconds = OPEN_SECONDS
        self._come_back_seconds = 0.0
        self._ids: Final = count(1)
        self._asked: Final[dict[str, asyncio.Future[dict[str, Any]]]] = {}
        self.hello = Hello(0, OPEN_SECONDS)

    @classmethod
    async def open(cls, url: str, *, token: str, since: int | None, language: str | None) -> "Connection":
        """Connected and greeted; `Lost` when that may be tried again, `Refused` when not."""
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
                # The server's heartbeat is watched instead.
                ping_interval=None,
                proxy=None if is_local(url) else True,
            )
        except InvalidStatus as error:
            response = error.response
            refusal = refusal_in(response.status_code, bytes(response.body))
            raise _lost_or_refused(refusal, response.headers.get("retry-after")) from None
        except (OSError, WebSocketException) as error:
            raise Lost(str(error) or type(error).__name__) from error
        connection = cls(socket)
        try:
            await connection.greet()
        except BaseException:
            connection.cut()
            raise
        return connection

    async def greet(self) -> None:
        """Wait for the first frame, which says what follows."""
        first = await self._receive()
        if first.type != "hello":
            raise Lost(f"began with {first.type} instead of hello")
        try:
            self.hello = msgspec.convert(first.data, Hello)
        except msgspec.ValidationError as error:
            raise Lost(f"the hello could not be read: {error}") from error
        self._silence_seconds = self.hello.heartbeat_seconds * HEARTBEATS_MISSING + SLOW_NETWORK_SECONDS

    async def next_frame(self) -> Frame:
        """What the server has to say, but for answers and heartbeats; at the end `Lost` or `LiveEnded`."""
        while True:
            frame = await self._receive()
            if frame.type == "goodbye":
                self._come_back_seconds = float(frame.data.get("reconnect_after_seconds", 0.0))
            elif frame.type in ("reply", "error") and frame.id is not None:
                self._answer(frame)
            elif frame.type != "heartbeat":
                return frame

    async def ask(self, kind: str, data: object = None) -> dict[str, Any]:
        """Send one message and wait for its answer."""
        name = str(next(self._ids))
        answer = self._asked[name] = asyncio.get_running_loop().create_future()
        try:
            await self.tell(kind, data, name=name)
            return await answer
        finally:
            self._asked.pop(name, None)

    async def tell(self, kind: str, data: object = None, *, name: str | None = None) -> None:
        """Send one message; without a name, only a refusal of it will be told, as a frame."""
        message = {
            "type": kind,
            **({} if data is None else {"data": data}),
            **({} if name is None else {"id": name}),
        }
        try:
            await self._socket.send(msgspec.json.encode(message).decode())
        except ConnectionClosed as closed:
            raise Lost(str(closed)) from closed

    async def close(self) -> None:
        """Hang up; whoever still waits for an answer hears that it is lost."""
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(Lost("the connection was lost before the answer came"))
        await self._socket.close()

    def cut(self) -> None:
        """Lose the connection as a bad network would: nothing more is sent or read."""
        self._socket.transport.abort()

    async def _receive(self) -> Frame:
        try:
            async with asyncio.timeout(self._silence_seconds):
                text = await self._socket.recv()
            return msgspec.json.decode(text, type=Frame)
        except TimeoutError:
            self.cut()
            raise Lost(f"nothing was heard for {self._silence_seconds:g} s") from None
        except msgspec.MsgspecError as error:
            self.cut()
            raise Lost(f"a frame could not be read: {error}") from error
        except ConnectionClosed as closed:
            raise self._end(closed) from None

    def _end(self, closed: ConnectionClosed) -> Exception:
        if closed.rcvd is None:
            return Lost("the connection broke", come_back_seconds=self._come_back_seconds)
        code, reason = closed.rcvd.code, closed.rcvd.reason
        if code in FINAL_CODES:
            return LiveEnded(code, reason)
        if code == TOKEN_REFUSED:
            return Lost(reason, token_refused=LiveEnded(code, reason))
        slower_seconds = SLOWER_SECONDS if code == TOO_MANY_MESSAGES else 0.0
        return Lost(
            f"the server closed: {code} {reason}",
            come_back_seconds=max(self._come_back_seconds, slower_seconds),
        )

    def _answer(self, frame: Frame) -> None:
        answer = self._asked.pop(frame.id or "", None)
        if answer is None or answer.done():
            return
        if frame.type == "reply":
            answer.set_result(frame.data)
        else:
            data = dict(frame.data)
            said = data.pop("status", 400), data.pop("code", "unknown"), data.pop("detail", "")
            answer.set_exception(Refused(*said, data))


def _lost_or_refused(refusal: Refused, retry_after: str | None) -> Exception:
    if refusal.status in AGAIN_STATUSES:
        return Lost(str(refusal), come_back_seconds=retry_after_seconds(retry_after))
    if refusal.status == UNAUTHORIZED:
        return Lost(str(refusal), token_refused=refusal)
    return refusal
