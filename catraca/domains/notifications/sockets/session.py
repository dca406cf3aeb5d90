"""One socket: sends its user's notifications in order and once.

The state is the number of the last one sent. An announcement with the next number is sent at once. After a
gap (a lost announcement, too many at once, a slow reader) rows are read from the database instead, so a
session needs little memory however far behind it is.
"""

import asyncio
import contextvars
from collections import deque
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

# Announcements waiting to be sent; beyond it rows are read.
MAX_QUEUED = 32
PAGE_ROWS = 50
RETRY_SECONDS = 0.5
INTERNAL_ERROR = 1011

Send = Callable[[str], Awaitable[None]]
Close = Callable[[int, str], Awaitable[None]]
ReadSince = Callable[[tuple[UUID, int]], Awaitable[list[Notification]]]


class Disconnected(Exception):
    """The client is not connected any more."""


@dataclass(eq=False, slots=True)
class Session:
    principal: Principal
    language: Language
    send: Send
    close: Close
    read_since: ReadSince
    seq: int = -1  # the last one sent; -1: not greeted yet
    closed: bool = False
    rides: set[UUID] = field(default_factory=set[UUID])
    sent_at_seconds: float = field(default_factory=monotonic_seconds)
    _queued: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    _positions: dict[UUID, tuple[ShownPosition, str]] = field(
        default_factory=dict[UUID, tuple[ShownPosition, str]]
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

    def announce(self, seq: int, frame: str) -> None:
        """Send an announced notification, if it is the next one; else read the rows."""
        if self.seq < 0 or seq <= self.seq:
            return  # `greet` reads the rows itself; or it is sent already
        expected = max(self.seq, self._queued[-1][0] if self._queued else 0) + 1
        if self._behind or seq > expected or len(self._queued) == MAX_QUEUED:
            self.catch_up()
        elif seq == expected:
            self._queued.append((seq, frame))
            self._ensure_delivering()

    def show_position(self, position: ShownPosition, frame: str) -> None:
        """Send the position. Of a ride's unsent positions only the newest is sent, and none that is stale."""
        if self.seq >= 0:
            self._positions[position.ride_id] = (position, frame)
            self._ensure_delivering()

    def catch_up(self) -> None:
        """Read the rows after the last one sent."""
        self._queued.clear()
        self._behind = True
        self._ensure_delivering()

    async def send_message(self, kind: str, data: object, *, message_id: str | None = None) -> None:
        """Send a frame without a number."""
        message = {"type": kind, "data": data}
        if message_id is not None:
            message["id"] = message_id
        await self._send(msgspec.json.encode(message).decode())

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

    async def _send(self, frame: str) -> None:
        self.sent_at_seconds = monotonic_seconds()
        await self.send(frame)

    def _ensure_delivering(self) -> None:
        if self._delivering is None and not self.closed:
            # A task only while there is something to send: an idle socket needs none.
            self._delivering = asyncio.create_task(self._deliver(), context=contextvars.Context())

    async def _deliver(self) -> None:
        try:
            while not self.closed and (self._behind or self._queued or self._positions):
                if self._behind:
                    await self._read_rows()
                elif self._queued:
                    await self._send_next(*self._queued.popleft())
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

    async def _send_next(self, seq: int, frame: str) -> None:
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
