"""What a person is told, as it happens: each message once, in order, over as many sockets as it takes."""

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Final
from uuid import UUID

import msgspec

from catraca.client.connection import Connection, Frame, Lost
from catraca.client.errors import Gap, Refused, Unreachable
from catraca.client.http import AGAIN_STATUSES, Bearer
from catraca.client.models import Pings, Standing
from catraca.client.pauses import Pauses
from catraca.client.values import Message, Ping

# Beyond it the socket is not read until somebody takes what waits.
MESSAGES_WAITING = 1000
REPLY_SECONDS = 15.0
# A connection that lasted so long was a good one.
STEADY_SECONDS = 30.0
GAPS_ALLOWED = 3
TOKENS_REFUSED = 2


class Live:
    """Iterate over it for messages; send with the verbs. A connection that is lost is opened again.

    `seq` is the last number handed out. Keep it, and give it as `since` to go on from there another day.
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
        # The last number received; what is between it and `seq` waits to be handed out.
        self._received = since
        self._waiting: Final[deque[Message]] = deque()
        self._news, self._room, self._handed = asyncio.Event(), asyncio.Event(), asyncio.Event()
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
            self._news.clear()
            await self._news.wait()
        # Nothing is awaited from here on: whoever is canceled has not taken a message.
        message = self._waiting.popleft()
        self._room.set()
        if message.seq is not None:
            self.seq = message.seq
            self._handed.set()
        return message

    async def open(self) -> None:
        """Return once the server has greeted; from then on nothing is missed."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
            self._keeper.add_done_callback(self._wake_everybody)
            await self._connected()

    async def close(self) -> None:
        """Hang up; whoever iterates comes to the end."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or has come to an end by itself."""
        return self._keeper is not None and self._keeper.done()

    async def send(self, kind: str, data: object = None) -> dict[str, Any]:
        """Send a message of this type and answer the reply; sent again where the connection was lost.

        That is safe for all there are: each may be repeated.
        """
        await self.open()
        pauses = Pauses()
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                while True:
                    connection = await self._connected()
                    with suppress(Lost):
                        try:
                            return await connection.ask(kind, data)
                        except Refused as refusal:
                            if refusal.status not in AGAIN_STATUSES:
                                raise
                    await asyncio.sleep(pauses.next_seconds())
        except TimeoutError:
            raise Unreachable(f"no reply to {kind} within {REPLY_SECONDS:g} s") from None

    async def ack(self, seq: int) -> None:
        """This device has everything up to here."""
        await self.send("ack", {"seq": seq})

    async def ping(self, *pings: Ping) -> Pings:
        """As a driver, tell where one is."""
        data = pings[0] if len(pings) == 1 else {"pings": pings}
        return msgspec.convert(await self.send("location.ping", data), Pings)

    async def go_online(self, position: Ping | None = None) -> Standing:
        """As a driver, begin to work."""
        data = {"online": True, **({"position": position} if position else {})}
        return msgspec.convert(await self.send("location.status", data), Standing)

    async def go_offline(self) -> Standing:
        """As a driver, stop working."""
        return msgspec.convert(await self.send("location.status", {"online": False}), Standing)

    async def subscribe(self, ride_id: UUID) -> None:
        """Get the positions of this ride's driver, also after the connection was lost."""
        await self.send("subscribe", {"ride_id": ride_id})
        self._watched.add(ride_id)

    async def unsubscribe(self, ride_id: UUID) -> None:
        """No more of them."""
        self._watched.discard(ride_id)
        await self.send("unsubscribe", {"ride_id": ride_id})

    def cut(self) -> None:
        """Lose the connection as in a tunnel, to try out what happens; it comes back by itself."""
        if self._connection is not None:
            self._connection.cut()

    async def _keep(self) -> None:
        """Keep a connection, until the server does not want one or does not answer for too long."""
        pauses, tokens_refused = Pauses(), 0
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
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
                    heard_at = loop.time()
                    if heard_at - opened_at > STEADY_SECONDS:
                        pauses.reset()
                    await connection.close()
            except Lost as lost:
                if lost.token_refused is not None:
                    tokens_refused += 1
                    if not self._bearer.is_renewable or tokens_refused >= TOKENS_REFUSED:
                        raise lost.token_refused from None
                    await self._bearer.renew(token)
                if loop.time() - heard_at > self._patience_seconds:
                    raise Unreachable(f"no socket within {self._patience_seconds:g} s: {lost}") from lost
                await asyncio.sleep(pauses.next_seconds(at_least=lost.come_back_seconds))

    async def _stay(self, connection: Connection, pauses: Pauses) -> None:
        """Read until it is lost; what came in order is as good as handed out."""
        begins_at = connection.hello.seq
        if self._received is None:
            self._received = self.seq = begins_at
        if begins_at != self._received:
            raise self._gap(begins_at)
        for ride_id in self._watched:
            await connection.tell("subscribe", {"ride_id": ride_id})
        self._connection = connection
        self.connections += 1
        self._up.set()
        acknowledging = asyncio.create_task(self._keep_acknowledging(connection))
        try:
            while True:
                await self._take(await connection.next_frame())
                # Not by the greeting, which a server that falls over after it would give as well.
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
            return  # of the moment, and the moment has passed
        self._waiting.append(Message(frame.seq, frame.type, frame.data))
        self._news.set()

    def _gap(self, found: int) -> Exception:
        """Asked for again from the last number that is here; a server that cannot close it is told of."""
        assert self._received is not None
        self._gaps += 1
        if self._gaps > GAPS_ALLOWED:
            return Gap(after=self._received, found=found)
        return Lost(f"a gap between {self._received} and {found}")

    async def _keep_acknowledging(self, connection: Connection) -> None:
        """One acknowledgement for all that was handed out since the last; again on each new connection."""
        if not self._acknowledge:
            return
        if self.connections > 1 and self.seq:
            self._handed.set()  # the last one may have been lost on its way
        with suppress(Lost):
            while True:
                await self._handed.wait()
                self._handed.clear()
                try:
                    await connection.tell("ack", {"seq": self.seq})
                except BaseException:
                    self._handed.set()
                    raise

    async def _connected(self) -> Connection:
        while True:
            if self._connection is not None:
                return self._connection
            if self._is_over():
                raise Unreachable("the socket was closed")
            await self._up.wait()

    def _is_over(self) -> bool:
        """Whether it was closed; what ended it otherwise is raised."""
        assert self._keeper is not None
        if self._keeper.done() and not self._keeper.cancelled():
            self._keeper.result()
        return self._keeper.done()

    def _wake_everybody(self, keeper: "asyncio.Task[None]") -> None:
        if not keeper.cancelled():
            keeper.exception()  # looked at: it is raised to whoever comes next, if anybody does
        self._news.set()
        self._up.set()
