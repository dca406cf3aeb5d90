"""The messages of one caller: each once and in order, over one connection after another."""

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Final
from uuid import UUID

import msgspec

from catraca.client.connection import Connection, ConnectionLost, Frame
from catraca.client.errors import Gap, Refused, Unreachable
from catraca.client.http import RETRY_STATUSES, Bearer
from catraca.client.models import Pings, Standing
from catraca.client.pauses import Pauses
from catraca.client.values import Message, Ping

# With more messages waiting, the socket is not read.
MESSAGES_WAITING = 1000
REPLY_SECONDS = 15.0
# After a connection of this length the retry pauses start again from the shortest.
STEADY_SECONDS = 30.0
GAPS_ALLOWED = 3
TOKENS_REFUSED = 2


class Live:
    """Iterate over it for messages; send commands with its methods. A lost connection is opened again.

    `seq` is the number of the last message delivered. Store it and pass it as `since` to resume later.
    """

    def __init__(
        self,
        url: str,
        bearer: Bearer,
        *,
        since: int | None,
        acknowledge: bool,
        patience_seconds: float,
        language: str | None,
    ) -> None:
        self._url: Final = url
        self._bearer: Final = bearer
        self._acknowledge: Final = acknowledge
        self._patience_seconds: Final = patience_seconds
        self._language: Final = language
        self.seq = since
        self.connections = 0
        # Number of the last message received; messages between it and `seq` wait for delivery.
        self._received = since
        self._waiting: Final[deque[Message]] = deque()
        self._arrived, self._room, self._delivered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._up = asyncio.Event()
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watched: Final[set[UUID]] = set()
        self._gaps = 0

    async def __aenter__(self) -> "Live":
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> "Live":
        return self

    async def __anext__(self) -> Message:
        await self.open()
        while not self._waiting:
            if self._is_over():
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        # No await from here on: a canceled caller has not taken a message.
        message = self._waiting.popleft()
        self._room.set()
        if message.seq is not None:
            self.seq = message.seq
            self._delivered.set()
        return message

    async def open(self) -> None:
        """Connect; returns after `hello`. No message is missed from then on."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
            self._keeper.add_done_callback(self._wake_all)
            await self._connected()

    async def close(self) -> None:
        """Close the connection; iteration ends."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_closed(self) -> bool:
        """True after `close`, or after it failed."""
        return self._keeper is not None and self._keeper.done()

    async def send(self, kind: str, data: object = None) -> dict[str, Any]:
        """Send a command and return its reply; sent again after a lost connection.

        All commands are safe to repeat.
        """
        await self.open()
        pauses = Pauses()
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                while True:
                    connection = await self._connected()
                    with suppress(ConnectionLost):
                        try:
                            return await connection.request(kind, data)
                        except Refused as refusal:
                            if refusal.status not in RETRY_STATUSES:
                                raise
                    await asyncio.sleep(pauses.next_seconds())
        except TimeoutError:
            raise Unreachable(f"no reply to {kind} within {REPLY_SECONDS:g} s") from None

    async def ack(self, seq: int) -> None:
        """Acknowledge all messages up to this number."""
        await self.send("ack", {"seq": seq})

    async def ping(self, *pings: Ping) -> Pings:
        """As a driver: send positions."""
        data = pings[0] if len(pings) == 1 else {"pings": pings}
        return msgspec.convert(await self.send("location.ping", data), Pings)

    async def go_online(self, position: Ping | None = None) -> Standing:
        """As a driver: go online."""
        data = {"online": True, **({"position": position} if position else {})}
        return msgspec.convert(await self.send("location.status", data), Standing)

    async def go_offline(self) -> Standing:
        """As a driver: go offline."""
        return msgspec.convert(await self.send("location.status", {"online": False}), Standing)

    async def subscribe(self, ride_id: UUID) -> None:
        """Receive the positions of this ride's driver; renewed after a lost connection."""
        await self.send("subscribe", {"ride_id": ride_id})
        self._watched.add(ride_id)

    async def unsubscribe(self, ride_id: UUID) -> None:
        """Stop receiving the positions of this ride's driver."""
        self._watched.discard(ride_id)
        await self.send("unsubscribe", {"ride_id": ride_id})

    def cut(self) -> None:
        """Break the connection, for tests; it is opened again."""
        if self._connection is not None:
            self._connection.cut()

    async def _keep(self) -> None:
        """Keep a connection open, until the server refuses it or is unreachable for too long."""
        pauses, tokens_refused = Pauses(), 0
        loop = asyncio.get_running_loop()
        last_connected_at = loop.time()
        while True:
            token = await self._bearer.current()
            try:
                connection = await Connection.open(
                    self._url, token=token, since=self._received, language=self._language
                )
                tokens_refused, opened_at = 0, loop.time()
                try:
                    await self._stay(connection, pauses)
                finally:
                    self._up.clear()
                    self._connection = None
                    last_connected_at = loop.time()
                    if last_connected_at - opened_at > STEADY_SECONDS:
                        pauses.reset()
                    await connection.close()
            except ConnectionLost as lost:
                if lost.token_refused is not None:
                    tokens_refused += 1
                    if not self._bearer.is_renewable or tokens_refused >= TOKENS_REFUSED:
                        raise lost.token_refused from None
                    await self._bearer.renew(token)
                if loop.time() - last_connected_at > self._patience_seconds:
                    raise Unreachable(f"no socket within {self._patience_seconds:g} s: {lost}") from lost
                await asyncio.sleep(pauses.next_seconds(at_least=lost.reconnect_after_seconds))

    async def _stay(self, connection: Connection, pauses: Pauses) -> None:
        """Read messages until the connection is lost."""
        begins_at = connection.hello.seq
        if self._received is None:
            self._received = self.seq = begins_at
        if begins_at != self._received:
            raise self._gap(begins_at)
        for ride_id in self._watched:
            await connection.send("subscribe", {"ride_id": ride_id})
        self._connection = connection
        self.connections += 1
        self._up.set()
        acknowledging = asyncio.create_task(self._keep_acknowledging(connection))
        try:
            while True:
                await self._take(await connection.next_frame())
                # Not after `hello`: a server that crashes afterwards sends it too.
                pauses.reset()
        finally:
            acknowledging.cancel()
            await asyncio.gather(acknowledging, return_exceptions=True)

    async def _take(self, frame: Frame) -> None:
        if frame.seq is not None:
            assert self._received is not None
            if frame.seq <= self._received:
                return
            if frame.seq > self._received + 1:
                raise self._gap(frame.seq - 1)
            while len(self._waiting) >= MESSAGES_WAITING:
                self._room.clear()
                await self._room.wait()
            self._received, self._gaps = frame.seq, 0
        elif len(self._waiting) >= MESSAGES_WAITING:
            return  # momentary, and out of date by now
        self._waiting.append(Message(frame.seq, frame.type, frame.data))
        self._arrived.set()

    def _gap(self, found: int) -> Exception:
        """Reconnect from the last number received; after some attempts raise `Gap`."""
        assert self._received is not None
        self._gaps += 1
        if self._gaps > GAPS_ALLOWED:
            return Gap(after=self._received, found=found)
        return ConnectionLost(f"a gap between {self._received} and {found}")

    async def _keep_acknowledging(self, connection: Connection) -> None:
        """Acknowledge delivered messages, many at once; repeated on each new connection."""
        if not self._acknowledge:
            return
        if self.connections > 1 and self.seq:
            self._delivered.set()  # the last acknowledgement may be lost
        with suppress(ConnectionLost):
            while True:
                await self._delivered.wait()
                self._delivered.clear()
                try:
                    await connection.send("ack", {"seq": self.seq})
                except BaseException:
                    self._delivered.set()
                    raise

    async def _connected(self) -> Connection:
        while True:
            if self._connection is not None:
                return self._connection
            if self._is_over():
                raise Unreachable("the socket was closed")
            await self._up.wait()

    def _is_over(self) -> bool:
        """True if it was closed; raises the failure that ended it."""
        assert self._keeper is not None
        if self._keeper.done() and not self._keeper.cancelled():
            self._keeper.result()
        return self._keeper.done()

    def _wake_all(self, keeper: "asyncio.Task[None]") -> None:
        if not keeper.cancelled():
            keeper.exception()  # marks it as retrieved; the next call raises it
        self._arrived.set()
        self._up.set()
