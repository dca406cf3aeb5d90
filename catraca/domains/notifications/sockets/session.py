"""One socket: sends its user's notifications in order and once.

The state is the number of the last one sent. An announcement with the next number is sent at once, without a
task. After a gap (a lost announcement, a client that does not keep up) rows are read from the database
instead, so a session needs little memory however far behind it is.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
import structlog
from prometheus_client import Counter

from catraca.domains.location import ShownPosition
from catraca.domains.notifications.model import Notification
from catraca.platform.auth import Principal
from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.errors import Refusal
from catraca.platform.texts import Language

log = structlog.get_logger()

ENDED = Counter("catraca_ws_ended_total", "Sockets closed by the server, by reason.", ["reason"])

PAGE_ROWS = 50
RETRY_SECONDS = 0.5
INTERNAL_ERROR = 1011

# Frames are JSON as bytes.
Send = Callable[[bytes], Awaitable[None]]
# Returns False if nothing was sent: the client must read first, or is gone.
SendNow = Callable[[bytes], bool]
Close = Callable[[int, str], Awaitable[None]]
ReadSince = Callable[[tuple[UUID, int]], Awaitable[list[Notification]]]


class Disconnected(Exception):
    """The client is not connected any more."""


@dataclass(eq=False, slots=True)
class Session:
    principal: Principal
    language: Language
    send: Send
    send_now: SendNow
    close: Close
    read_since: ReadSince
    seq: int = -1  # the last one sent; -1: not greeted yet
    closed: bool = False
    rides: set[UUID] = field(default_factory=set[UUID])
    sent_at_seconds: float = field(default_factory=monotonic_seconds)
    _positions: dict[UUID, tuple[ShownPosition, bytes]] = field(
        default_factory=dict[UUID, tuple[ShownPosition, bytes]]
    )
    _behind: bool = False
    _delivering: asyncio.Task[None] | None = None

    @property
    def user_id(self) -> UUID:
        return self.principal.id

    async def greet(self, seq: int, *, heartbeat_seconds: float) -> None:
        """Send the first frame, then what follows `seq`."""
        await self.send_message("hello", {"seq": seq, "heartbeat_seconds": heartbeat_seconds})
        self.seq = seq
        self.catch_up()

    def announce(self, seq: int, frame: bytes) -> None:
        """Send an announced notification, if it is the next one; else read the rows."""
        if self.seq < 0 or seq <= self.seq:
            return  # `greet` reads the rows itself; or it is sent already
        if seq == self.seq + 1 and self._send_now(frame):
            self.seq = seq
        else:
            self.catch_up()

    def show_position(self, position: ShownPosition, frame: bytes) -> None:
        """Send the position. Of a ride's unsent positions only the newest is sent, and none that is stale."""
        if self.seq >= 0 and not self._send_now(frame):
            self._positions[position.ride_id] = (position, frame)
            self._ensure_delivering()

    def catch_up(self) -> None:
        """Read the rows after the last one sent."""
        self._behind = True
        self._ensure_delivering()

    async def send_message(self, kind: str, data: object, *, message_id: str | None = None) -> None:
        """Send a frame without a number."""
        message = {"type": kind, "data": data}
        if message_id is not None:
            message["id"] = message_id
        await self._send(msgspec.json.encode(message))

    async def end(self, code: int, reason: str) -> None:
        """Close the socket once. Unsent notifications stay in the database for the next socket."""
        if self.closed:
            return
        self.stop()
        ENDED.labels(reason).inc()
        log.info("socket_ended", code=code, reason=reason)
        with suppress(Disconnected):
            await self.close(code, reason)

    def stop(self) -> None:
        """Send no more notifications."""
        self.closed = True
        task = self._delivering
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _send(self, frame: bytes) -> None:
        self.sent_at_seconds = monotonic_seconds()
        await self.send(frame)

    def _send_now(self, frame: bytes) -> bool:
        """Send without waiting; False if earlier frames wait, or the client does not keep up or is gone."""
        if self._delivering is not None or self.closed:
            return False
        try:
            sent = self.send_now(frame)
        except Exception:  # must not reach the hub and its other sockets; `send` closes the socket
            log.exception("delivery_failed")
            return False
        if sent:
            self.sent_at_seconds = monotonic_seconds()
        return sent

    def _ensure_delivering(self) -> None:
        if self._delivering is None and not self.closed:
            # A task only while rows are read or the client does not keep up.
            self._delivering = asyncio.create_task(self._deliver(), context=contextvars.Context())

    async def _deliver(self) -> None:
        try:
            while not self.closed and (self._behind or self._positions):
                if self._behind:
                    await self._read_rows()
                else:
                    await self._send_positions()
        except Disconnected:
            self.closed = True
        except Exception:
            # Closed, because an open socket without deliveries looks healthy.
            log.exception("delivery_failed")
            self._delivering = None
            await self.end(INTERNAL_ERROR, "internal_error")
        finally:
            self._delivering = None

    async def _read_rows(self) -> None:
        self._behind = False
        try:
            rows = await self.read_since((self.user_id, self.seq))
        except Refusal:  # the database is away: try again
            self._behind = True
            await asyncio.sleep(RETRY_SECONDS)
            return
        for row in rows:
            await self._send_next(row.seq, row.frame())
        if len(rows) == PAGE_ROWS:
            self._behind = True

    async def _send_next(self, seq: int, frame: bytes) -> None:
        if self.closed:
            raise Disconnected
        if seq <= self.seq:
            return
        # Set before the send: an interrupted send must not be repeated on this socket.
        self.seq = seq
        await self._send(frame)

    async def _send_positions(self) -> None:
        positions, self._positions = self._positions, {}
        for position, frame in positions.values():
            # It can be stale by now if the client reads slowly.
            if not position.is_stale(now()):
                await self._send(frame)
