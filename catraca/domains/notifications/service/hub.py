"""The sockets of this process, and how they hear of what is new: announced through Redis, or looked up.

While Redis speaks, a look at the rows now and then finds what an announcement missed; while it does not, the
look comes every second. Both only say that there is something: what is sent is in order, and once.
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
from catraca.domains.notifications.model import CHANNEL, POSITIONS_CHANNEL, Notification
from catraca.domains.notifications.service.positions import PositionBoard
from catraca.domains.notifications.service.session import PAGE, Gone, Session
from catraca.domains.notifications.service.telling import read_news
from catraca.domains.notifications.store import notifications as store
from catraca.platform.auth import Principal
from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.database import Database
from catraca.platform.errors import Busy, Refusal
from catraca.platform.gather import Gather
from catraca.platform.redis_pubsub import Subscriber

log = structlog.get_logger()

LOOK_SECONDS = 1.0
LOOK_SECONDS_WHILE_TOLD = 5.0
HEARTBEAT_SECONDS = 20.0
SWEEP_SECONDS = 1.0
SOCKETS_A_PERSON = 8
RECONNECT_SECONDS = (0.5, 5.0)

RESTARTING, TOO_MANY_SOCKETS, UNAUTHENTICATED = 1012, 4409, 4401

SOCKETS = Gauge("catraca_ws_sockets", "Sockets that are open.", multiprocess_mode="livesum")

# Given by the role: whose token of these does not count any more.
Revoked = Callable[[Sequence[Principal]], Awaitable[Sequence[bool]]]


class Hub:
    """Of one process. It listens, looks and sweeps only while there is somebody to do it for."""

    def __init__(self, database: Database, redis_url: str | None, *, revoked: Revoked) -> None:
        self._database = database
        self._revoked = revoked
        self._sessions: dict[UUID, list[Session]] = {}
        self._followers: dict[UUID, set[Session]] = {}
        self._board = PositionBoard()
        self._look_now = asyncio.Event()
        self._listener = Subscriber(
            redis_url,
            {CHANNEL: self._hear_news, POSITIONS_CHANNEL: self._hear_positions},
            on_change=self._look_now.set,
        )
        self._reader = Gather(self._read_since)
        self._greeter = Gather(self._read_spans)
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.draining = False

    @property
    def read_since(self) -> Callable[[tuple[UUID, int]], Awaitable[list[Notification]]]:
        """Rows after a number; what many sockets ask for at a time is one query."""
        return self._reader.ask

    async def join(self, session: Session, *, since: int | None) -> None:
        """Tell this socket from now on, and first what it missed since then."""
        if self.draining:
            raise Busy(retry_after_seconds=1)
        self._sessions.setdefault(session.user_id, []).append(session)
        SOCKETS.inc()
        self._ensure_running()
        await self._make_room(session.user_id)
        # Being known comes first: what is announced from here on is looked for by the greeting.
        before_first, last = await self._greeter.ask(session.user_id)
        begin = last if since is None else min(max(since, before_first), last)
        await session.greet(begin, heartbeat_seconds=HEARTBEAT_SECONDS)

    def leave(self, session: Session) -> None:
        session.stop()
        self._forget(session)
        if not self._sessions and self._running is not None:
            self._running.cancel()
            self._running = None

    def _forget(self, session: Session) -> None:
        theirs = self._sessions.get(session.user_id, [])
        if session in theirs:
            theirs.remove(session)
            SOCKETS.dec()
        if not theirs:
            self._sessions.pop(session.user_id, None)
        for ride_id in list(session.rides):
            self.unfollow(session, ride_id)

    def follow(self, session: Session, ride_id: UUID) -> None:
        """Positions of this ride's driver, from now on."""
        session.rides.add(ride_id)
        self._followers.setdefault(ride_id, set()).add(session)

    def unfollow(self, session: Session, ride_id: UUID) -> None:
        session.rides.discard(ride_id)
        followers = self._followers.get(ride_id, set())
        followers.discard(session)
        if not followers:
            self._followers.pop(ride_id, None)

    async def drain(self) -> None:
        """Say good-bye to everybody, with a hint when to come back: to others, and not all at once."""
        self.draining = True
        await asyncio.gather(*(self._dismiss(session) for session in self._everybody()))

    async def _dismiss(self, session: Session) -> None:
        after_seconds = round(random.uniform(*RECONNECT_SECONDS), 2)  # noqa: S311 - spread, not secret
        with suppress(Gone, TimeoutError):
            async with asyncio.timeout(1):
                await session.say("goodbye", {"code": "restarting", "reconnect_after_seconds": after_seconds})
                await self._end(session, RESTARTING, "restarting")

    def _everybody(self) -> list[Session]:
        return [session for theirs in self._sessions.values() for session in theirs]

    async def _make_room(self, user_id: UUID) -> None:
        """Of too many sockets of a person the oldest go, before anything is waited for."""
        surplus = self._sessions[user_id][:-SOCKETS_A_PERSON]
        for oldest in surplus:
            self._forget(oldest)
        await asyncio.gather(*(self._end(one, TOO_MANY_SOCKETS, "too_many_sockets") for one in surplus))

    def _hear_news(self, payload: bytes) -> None:
        try:
            news = read_news(payload)
        except msgspec.MsgspecError:  # of another version, maybe: the rows are the same to all
            log.warning("news_unreadable")
            self._look_now.set()
            return
        for one in news:
            for session in self._sessions.get(one.user_id, ()):
                session.hear(one.seq, one.frame)

    def _hear_positions(self, payload: bytes) -> None:
        try:
            positions = decode_positions(payload)
        except msgspec.MsgspecError:
            log.warning("positions_unreadable")
            return
        for position, frame in self._board.news(positions, at=now()):
            watching = {*self._sessions.get(position.passenger_id, ())}
            following = self._followers.get(position.ride_id, set())
            for session in watching | {one for one in following if _may_see(one.principal, position)}:
                session.show(position, frame)

    async def _read_since(self, wanted: Sequence[tuple[UUID, int]]) -> list[list[Notification]]:
        async with self._database.connection() as db:
            return await store.read_since(db, wanted, limit=PAGE)

    async def _read_spans(self, user_ids: Sequence[UUID]) -> list[tuple[int, int]]:
        async with self._database.connection() as db:
            spans = await store.spans_of(db, user_ids)
        return [spans.get(user_id, (0, 0)) for user_id in user_ids]

    def _ensure_running(self) -> None:
        if self._running is None:
            # Of its own context: it outlives the socket that happened to start it.
            self._running = asyncio.create_task(self._run(), name="hub", context=contextvars.Context())
            self._running.add_done_callback(self._see_it_end)

    def _see_it_end(self, task: asyncio.Task[None]) -> None:
        """It ends with its last socket. If it fails, that is told, and it begins anew."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("hub_failed", exc_info=error)
        if self._running is task:
            self._running = None
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._begin_anew)

    def _begin_anew(self) -> None:
        if self._sessions:
            self._ensure_running()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listener.run(self._stopping))
            tasks.create_task(self._look_again_and_again())
            tasks.create_task(self._sweep_again_and_again())

    async def _look_again_and_again(self) -> None:
        while True:
            pause = LOOK_SECONDS_WHILE_TOLD if self._listener.connected else LOOK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look_now.wait()
            self._look_now.clear()
            with suppress(Refusal):  # the database is away: nothing is new
                await self._look()

    async def _look(self) -> None:
        """Wake whoever is behind what is written."""
        async with self._database.connection() as db:
            heads = await store.heads_of(db, list(self._sessions))
        for user_id, head in heads.items():
            for session in self._sessions.get(user_id, ()):
                if 0 <= session.seq < head:
                    session.look()

    async def _sweep_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(Refusal):  # nobody can be asked whose tokens still count; the next sweep does
                await self._end_what_is_over()
            await self._beat()

    async def _end_what_is_over(self) -> None:
        at = now()
        expired, living = list[Session](), list[Session]()
        for session in self._everybody():
            (expired if session.principal.expires_at <= at else living).append(session)
        await self._end_all(expired, "token_expired")
        if living:
            verdicts = await self._revoked([session.principal for session in living])
            revoked = [one for one, is_revoked in zip(living, verdicts, strict=True) if is_revoked]
            await self._end_all(revoked, "token_revoked")

    async def _end_all(self, sessions: Iterable[Session], reason: str) -> None:
        await asyncio.gather(*(self._end(session, UNAUTHENTICATED, reason) for session in sessions))

    async def _beat(self) -> None:
        """A browser sees no pings; whoever has heard nothing for a while is told that all is well."""
        due = monotonic_seconds() - HEARTBEAT_SECONDS
        await _each(
            session.say("heartbeat", {}) for session in self._everybody() if session.spoke_at_seconds < due
        )

    async def _end(self, session: Session, code: int, reason: str) -> None:
        with suppress(TimeoutError):  # a peer that does not read is cut off by the server
            async with asyncio.timeout(1):
                await session.end(code, reason)


def _may_see(follower: Principal, position: ShownPosition) -> bool:
    """Asked for each position: a ride that was followed yesterday may have another driver today."""
    return follower.has("operator") or follower.id in (position.passenger_id, position.driver_id)


async def _each(talks: Iterable[Awaitable[None]]) -> None:
    """Side by side, so that one slow reader does not keep the others waiting."""
    tasks = [asyncio.ensure_future(asyncio.wait_for(talk, 1)) for talk in talks]
    await asyncio.gather(*tasks, return_exceptions=True)
