"""One socket: what its person is to get, in order and once. Where it stands is a number, not a queue.

What is announced in order is sent as it comes. Whatever does not follow (a hint lost, too much at once, a
reader that is slow) is read from the rows instead, so a socket keeps next to nothing, however far behind.
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

ENDED = Counter("catraca_ws_ended_total", "Sockets we closed, by the reason.", ["reason"])

# Announced and not yet sent; beyond it the rows are read.
KEPT_AT_MOST = 32
PAGE = 50
PAUSE_SECONDS = 0.5
FAILED = 1011

Send = Callable[[str], Awaitable[None]]
Close = Callable[[int, str], Awaitable[None]]
ReadSince = Callable[[tuple[UUID, int]], Awaitable[list[Notification]]]


class Gone(Exception):
    """The peer is not there any more."""


@dataclass(eq=False, slots=True)
class Session:
    """A person's socket, from its greeting to its end."""

    principal: Principal
    language: Language
    send: Send
    close: Close
    read_since: ReadSince
    seq: int = -1  # the last one sent; none is before the greeting
    closed: bool = False
    rides: set[UUID] = field(default_factory=set[UUID])
    spoke_at_seconds: float = field(default_factory=monotonic_seconds)
    _kept: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])
    _positions: dict[UUID, tuple[ShownPosition, str]] = field(
        default_factory=dict[UUID, tuple[ShownPosition, str]]
    )
    _behind: bool = False
    _delivering: asyncio.Task[None] | None = None

    @property
    def user_id(self) -> UUID:
        return self.principal.id

    async def greet(self, seq: int, *, heartbeat_seconds: float) -> None:
        """Say from where on it is told, and then send what there is."""
        await self.say("hello", {"seq": seq, "heartbeat_seconds": heartbeat_seconds})
        self.seq = seq
        self.look()

    def hear(self, seq: int, frame: str) -> None:
        """A notification of this person has been announced."""
        if self.seq < 0 or seq <= self.seq:
            return  # the greeting looks by itself; or it is old news
        follows = max(self.seq, self._kept[-1][0] if self._kept else 0) + 1
        if self._behind or seq > follows or len(self._kept) == KEPT_AT_MOST:
            self.look()
        elif seq == follows:
            self._kept.append((seq, frame))
            self._ensure_delivering()

    def show(self, position: ShownPosition, frame: str) -> None:
        """Of the positions not sent yet only the newest counts, and it no longer than it is news."""
        if self.seq >= 0:
            self._positions[position.ride_id] = (position, frame)
            self._ensure_delivering()

    def look(self) -> None:
        """There may be something new among the rows."""
        self._kept.clear()
        self._behind = True
        self._ensure_delivering()

    async def say(self, kind: str, data: object, *, message_id: str | None = None) -> None:
        """Something of the moment, without a number."""
        said = {"type": kind, "data": data}
        await self._send(msgspec.json.encode(said if message_id is None else {**said, "id": message_id}))

    async def end(self, code: int, reason: str) -> None:
        """Close it, once; what was not sent is asked for by whoever comes back."""
        if self.closed:
            return
        self.stop()
        ENDED.labels(reason).inc()
        log.info("socket_ended", code=code, reason=reason)
        with suppress(Gone):
            await self.close(code, reason)

    def stop(self) -> None:
        """Deliver nothing more."""
        self.closed = True
        task = self._delivering
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _send(self, frame: bytes) -> None:
        self.spoke_at_seconds = monotonic_seconds()
        await self.send(frame.decode())

    def _ensure_delivering(self) -> None:
        if self._delivering is None and not self.closed:
            # Only while there is something to send: an idle socket costs no task.
            self._delivering = asyncio.create_task(self._deliver(), context=contextvars.Context())

    async def _deliver(self) -> None:
        try:
            while not self.closed and (self._behind or self._kept or self._positions):
                if self._behind:
                    await self._catch_up()
                elif self._kept:
                    await self._send_next(*self._kept.popleft())
                else:
                    await self._send_positions()
        except Gone:
            self.closed = True
        except Exception:
            # A socket that hears nothing more must not look like one that is well.
            log.exception("delivery_failed")
            self._delivering = None
            await self.end(FAILED, "internal_error")
        finally:
            self._delivering = None

    async def _catch_up(self) -> None:
        self._behind = False
        try:
            rows = await self.read_since((self.user_id, self.seq))
        except Refusal:  # the database is away: the rows stay where they are
            self._behind = True
            await asyncio.sleep(PAUSE_SECONDS)
            return
        for row in rows:
            await self._send_next(row.seq, row.frame())
        if len(rows) == PAGE:
            self._behind = True

    async def _send_next(self, seq: int, frame: str) -> None:
        if self.closed:
            raise Gone
        if seq <= self.seq:
            return
        self.spoke_at_seconds = monotonic_seconds()
        # Counted before it is sent: were it interrupted, it would be sent again by whoever resumes.
        self.seq = seq
        await self.send(frame)

    async def _send_positions(self) -> None:
        positions, self._positions = self._positions, {}
        for position, frame in positions.values():
            # A peer that did not read for a while is not shown where somebody was then.
            if not position.is_stale(now()):
                self.spoke_at_seconds = monotonic_seconds()
                await self.send(frame)
