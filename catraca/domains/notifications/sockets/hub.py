"""The sockets of one process: passes announcements from Redis to them, and polls the database.

The poll finds notifications whose announcement was lost. It runs every second while Redis is away, else less
often. Sessions send in order and once, whichever way they learn of a notification.
"""

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from uuid import UUID

import msgspec
import structlog
from prometheus_client import Gauge

from catraca.domains.location import ShownPosition, decode_positions
from catraca.domains.notifications.messages import store
from catraca.domains.notifications.messages.model import decode_announcements
from catraca.domains.notifications.model import NOTIFICATIONS_CHANNEL, POSITIONS_CHANNEL, Notification
from catraca.domains.notifications.sockets.model import LatestPositions
from catraca.domains.notifications.sockets.session import PAGE_ROWS, Disconnected, Session
from catraca.platform.auth import Principal
from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.database import Database
from catraca.platform.errors import Busy, Refusal
from catraca.platform.gather import Gather
from catraca.platform.redis_pubsub import Subscriber

log = structlog.get_logger()

POLL_SECONDS = 1.0
POLL_SECONDS_WITH_REDIS = 5.0
HEARTBEAT_SECONDS = 20.0
SWEEP_SECONDS = 1.0
MAX_SOCKETS_PER_USER = 8
RECONNECT_SECONDS = (0.5, 5.0)

RESTARTING, TOO_MANY_SOCKETS, UNAUTHENTICATED = 1012, 4409, 4401

SOCKETS = Gauge("catraca_ws_sockets", "Open sockets.", multiprocess_mode="livesum")

# Given by the role: for each principal, whether its token was revoked.
Revoked = Callable[[Sequence[Principal]], Awaitable[Sequence[bool]]]


class Hub:
    """Listens, polls and sweeps only while a socket is open."""

    def __init__(self, database: Database, redis_url: str | None, *, revoked: Revoked) -> None:
        self._database = database
        self._revoked = revoked
        self._sessions: dict[UUID, list[Session]] = {}
        self._followers: dict[UUID, set[Session]] = {}
        self._positions = LatestPositions()
        self._poll_now = asyncio.Event()
        self._listener = Subscriber(
            redis_url,
            {NOTIFICATIONS_CHANNEL: self._on_announcements, POSITIONS_CHANNEL: self._on_positions},
            on_change=self._poll_now.set,
        )
        self._reader = Gather(self._read_since)
        self._range_reader = Gather(self._read_ranges)
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.draining = False

    @property
    def read_since(self) -> Callable[[tuple[UUID, int]], Awaitable[list[Notification]]]:
        """Read rows after a number; concurrent calls share one query."""
        return self._reader.ask

    async def join(self, session: Session, *, since: int | None) -> None:
        """Add the socket, greet it, and send what it missed after `since`."""
        if self.draining:
            raise Busy(retry_after_seconds=1)
        self._sessions.setdefault(session.user_id, []).append(session)
        SOCKETS.inc()
        self._ensure_running()
        await self._close_oldest(session.user_id)
        # Added before this read, so that no announcement falls between the two.
        before_first, last = await self._range_reader.ask(session.user_id)
        begin = last if since is None else min(max(since, before_first), last)
        await session.greet(begin, heartbeat_seconds=HEARTBEAT_SECONDS)

    def leave(self, session: Session) -> None:
        session.stop()
        self._remove(session)
        if not self._sessions and self._running is not None:
            self._running.cancel()
            self._running = None

    def _remove(self, session: Session) -> None:
        of_user = self._sessions.get(session.user_id, [])
        if session in of_user:
            of_user.remove(session)
            SOCKETS.dec()
        if not of_user:
            self._sessions.pop(session.user_id, None)
        for ride_id in list(session.rides):
            self.unfollow(session, ride_id)

    def follow(self, session: Session, ride_id: UUID) -> None:
        """Send the positions of this ride's driver from now on."""
        session.rides.add(ride_id)
        self._followers.setdefault(ride_id, set()).add(session)

    def unfollow(self, session: Session, ride_id: UUID) -> None:
        session.rides.discard(ride_id)
        followers = self._followers.get(ride_id, set())
        followers.discard(session)
        if not followers:
            self._followers.pop(ride_id, None)

    async def drain(self) -> None:
        """Close all sockets, each with its own time to reconnect, so that they do not return at once."""
        self.draining = True
        await asyncio.gather(*(self._say_goodbye(session) for session in self._all_sessions()))

    async def _say_goodbye(self, session: Session) -> None:
        after_seconds = round(random.uniform(*RECONNECT_SECONDS), 2)  # noqa: S311 - spread, not secret
        with suppress(Disconnected, TimeoutError):
            async with asyncio.timeout(1):
                await session.send_message(
                    "goodbye", {"code": "restarting", "reconnect_after_seconds": after_seconds}
                )
                await self._end(session, RESTARTING, "restarting")

    def _all_sessions(self) -> list[Session]:
        return [session for of_user in self._sessions.values() for session in of_user]

    async def _close_oldest(self, user_id: UUID) -> None:
        """Close a user's oldest sockets beyond the maximum. They are removed before the first await."""
        surplus = self._sessions[user_id][:-MAX_SOCKETS_PER_USER]
        for oldest in surplus:
            self._remove(oldest)
        await asyncio.gather(*(self._end(one, TOO_MANY_SOCKETS, "too_many_sockets") for one in surplus))

    def _on_announcements(self, payload: bytes) -> None:
        try:
            announcements = decode_announcements(payload)
        except msgspec.MsgspecError:  # perhaps of another version: the rows have the same
            log.warning("announcement_unreadable")
            self._poll_now.set()
            return
        for one in announcements:
            for session in self._sessions.get(one.user_id, ()):
                session.announce(one.seq, one.frame)

    def _on_positions(self, payload: bytes) -> None:
        try:
            positions = decode_positions(payload)
        except msgspec.MsgspecError:
            log.warning("positions_unreadable")
            return
        for position, frame in self._positions.updates(positions, at=now()):
            watching = {*self._sessions.get(position.passenger_id, ())}
            following = self._followers.get(position.ride_id, set())
            for session in watching | {one for one in following if _may_see(one.principal, position)}:
                session.show_position(position, frame)

    async def _read_since(self, wanted: Sequence[tuple[UUID, int]]) -> list[list[Notification]]:
        async with self._database.connection() as db:
            return await store.read_since(db, wanted, limit=PAGE_ROWS)

    async def _read_ranges(self, user_ids: Sequence[UUID]) -> list[tuple[int, int]]:
        async with self._database.connection() as db:
            ranges = await store.seq_ranges(db, user_ids)
        return [ranges.get(user_id, (0, 0)) for user_id in user_ids]

    def _ensure_running(self) -> None:
        if self._running is None:
            # In an empty context: it outlives the request that started it.
            self._running = asyncio.create_task(self._run(), name="hub", context=contextvars.Context())
            self._running.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Log a failure and start again; the task is canceled with the last socket."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("hub_failed", exc_info=error)
        if self._running is task:
            self._running = None
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._restart)

    def _restart(self) -> None:
        if self._sessions:
            self._ensure_running()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._stopping))
            tasks.create_task(self._poll_loop())
            tasks.create_task(self._sweep_loop())

    async def _poll_loop(self) -> None:
        while True:
            pause = POLL_SECONDS_WITH_REDIS if self._listener.connected else POLL_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._poll_now.wait()
            self._poll_now.clear()
            with suppress(Refusal):  # the database is away
                await self._poll()

    async def _poll(self) -> None:
        """Let sessions behind their user's last number read the rows."""
        async with self._database.connection() as db:
            last_seqs = await store.last_seqs(db, list(self._sessions))
        for user_id, last in last_seqs.items():
            for session in self._sessions.get(user_id, ()):
                if 0 <= session.seq < last:
                    session.catch_up()

    async def _sweep_loop(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(Refusal):  # the database is away: the next sweep checks the tokens
                await self._end_invalid()
            await self._send_heartbeats()

    async def _end_invalid(self) -> None:
        at = now()
        expired, living = list[Session](), list[Session]()
        for session in self._all_sessions():
            (expired if session.principal.expires_at <= at else living).append(session)
        await self._end_all(expired, "token_expired")
        if living:
            revoked_flags = await self._revoked([session.principal for session in living])
            revoked = [one for one, is_revoked in zip(living, revoked_flags, strict=True) if is_revoked]
            await self._end_all(revoked, "token_revoked")

    async def _end_all(self, sessions: Iterable[Session], reason: str) -> None:
        await asyncio.gather(*(self._end(session, UNAUTHENTICATED, reason) for session in sessions))

    async def _send_heartbeats(self) -> None:
        """Send a frame to sockets that were quiet: browsers do not see WebSocket pings."""
        due = monotonic_seconds() - HEARTBEAT_SECONDS
        await _each(
            session.send_message("heartbeat", {})
            for session in self._all_sessions()
            if session.sent_at_seconds < due
        )

    async def _end(self, session: Session, code: int, reason: str) -> None:
        with suppress(TimeoutError):  # the server cuts off a client that does not read
            async with asyncio.timeout(1):
                await session.end(code, reason)


def _may_see(follower: Principal, position: ShownPosition) -> bool:
    """Checked for each position: the ride can have another driver than when it was followed."""
    return follower.has("operator") or follower.id in (position.passenger_id, position.driver_id)


async def _each(sends: Iterable[Awaitable[None]]) -> None:
    """Run all concurrently, each for at most a second: a slow client must not delay the others."""
    tasks = [asyncio.ensure_future(asyncio.wait_for(send, 1)) for send in sends]
    await asyncio.gather(*tasks, return_exceptions=True)
