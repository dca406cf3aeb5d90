"""The windows in which a process may die: wrappers that kill it at a named point of its work.

Catraca has no code for this; connections, the transport and its subscriptions are wrapped.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any

from catraca.platform.bus import Delivery, Queue, Subscription, Topology
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import Database, Db, Row

# In the order of an event's life.
WINDOWS = (
    "before_commit",
    "after_commit",
    "between_publish_and_confirm",
    "between_confirm_and_mark",
    "after_mark",
    "in_handler",
    "between_handler_commit_and_ack",
    "during_retry",
)
# The last step of the current task, for the hook at its commit.
after: ContextVar[str] = ContextVar("after", default="")


class Fate:
    """Ends this process, as `kill -9` does, when it passes the named window for the n-th time."""

    def __init__(self, window: str | None, passage: int) -> None:
        self.window = window
        self._left = passage

    def pass_by(self, window: str) -> None:
        if self.is_up(window):
            self.strike()

    def is_up(self, window: str) -> bool:
        """True if this passage is the last one; for callers that must act before `strike`."""
        if window != self.window:
            return False
        self._left -= 1
        return self._left <= 0

    def strike(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class WatchedConnection:
    """A connection whose COMMIT is run by `commit`, which may kill the process."""

    def __init__(self, connection: Any, commit: Callable[[Any], Awaitable[str]]) -> None:
        self._connection = connection
        self._commit = commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, query: str, *arguments: object) -> str:
        if query == "COMMIT":
            return await self._commit(self._connection)
        return await self._connection.execute(query, *arguments)


def watch(database: Database, commit: Callable[[Any], Awaitable[str]]) -> Database:
    """Make every transaction of this database end with `commit`."""
    pool = database._pool
    connect = pool._connect

    async def connect_watched() -> WatchedConnection:
        return WatchedConnection(await connect(), commit)

    pool._connect = connect_watched
    return database


def writers_commit(fate: Fate) -> Callable[[Any], Awaitable[str]]:
    async def commit(connection: Any) -> str:
        fate.pass_by("before_commit")
        tag = await connection.execute("COMMIT")
        fate.pass_by("after_commit")
        return tag

    return commit


def relays_commit(fate: Fate) -> Callable[[Any], Awaitable[str]]:
    """On the PostgreSQL bus this COMMIT publishes, confirms and marks as sent; on RabbitMQ it only marks."""

    async def commit(connection: Any) -> str:
        what = after.get()
        after.set("")
        if what == "moving" and fate.is_up("between_publish_and_confirm"):
            await send_and_die(connection.execute("COMMIT"), fate)
        tag = await connection.execute("COMMIT")
        if what:
            fate.pass_by("after_mark")
        return tag

    return commit


def retries_commit(fate: Fate) -> Callable[[Any], Awaitable[str]]:
    """For the PostgreSQL bus, where the copy and the acknowledgement are one transaction."""

    async def commit(connection: Any) -> str:
        if after.get() == "failing" and fate.is_up("during_retry"):
            await send_and_die(connection.execute("COMMIT"), fate)
        return await connection.execute("COMMIT")

    return commit


async def send_and_die(work: Coroutine[Any, Any, Any], fate: Fate) -> None:
    """Send the statement to the server and die before its answer."""
    sending = asyncio.create_task(work)
    await let_it_leave()
    fate.strike()
    await sending


async def let_it_leave() -> None:
    """Run the event loop a few times: to begin, to write, to flush."""
    for _ in range(5):
        await asyncio.sleep(0)


class FatedPostgresBus(PostgresBus):
    def __init__(self, database: Database, topology: Topology, fate: Fate) -> None:
        super().__init__(database, topology)
        self._fate = fate

    async def take_over(self, db: Db, events: Sequence[Row]) -> list[Exception | None]:
        outcomes = await super().take_over(db, events)
        self._fate.pass_by("between_confirm_and_mark")
        after.set("moving")
        return outcomes

    async def subscribe(self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]) -> Any:
        return FatedSubscription(await super().subscribe(queue, when_ready=when_ready), self._fate)


class FatedSubscription:
    """Passes its windows in `done` and `retry`; forwards everything else to the real subscription."""

    def __init__(self, subscription: Subscription, fate: Fate) -> None:
        self._subscription = subscription
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subscription, name)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        self._fate.pass_by("between_handler_commit_and_ack")
        await self._subscription.done(deliveries)

    async def retry(self, delivery: Delivery, *, delay_seconds: float, reason: str) -> None:
        after.set("failing")
        await self._subscription.retry(delivery, delay_seconds=delay_seconds, reason=reason)
        after.set("")
