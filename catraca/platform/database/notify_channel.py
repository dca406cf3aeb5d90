"""Wakes processes when there is work, by PostgreSQL's NOTIFY, so that they need not poll often.

NOTIFY in a transaction takes a lock that the whole server shares. So notifications are sent after the commit,
on a separate connection, a bounded number of times a second. They may be lost: each subscriber also polls.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

import asyncpg

from catraca.platform.database.connection import Connection
from catraca.platform.pauses import within

CHANNEL = "catraca"
# Between two notifications of one process.
PAUSE_SECONDS = 0.005
SEND_SECONDS = 2.0
# A process that only listens notices a server that is gone without a message by asking it.
CHECK_SECONDS = 15.0
RECONNECT_SECONDS = 1.0
MAX_PAYLOAD_CHARACTERS = 7000

_LOST = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class NotifyChannel:
    """One connection beside the pool, opened at the first `publish` or `subscribe`."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._process = os.urandom(6).hex()
        self._subscribers: dict[str, set[asyncio.Event]] = {}
        self._unsent: set[str] = set()
        self._pending = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def publish(self, topic: str) -> None:
        """Wake the subscribers of the topic: in this process at once, in others a moment later."""
        self._wake(topic)
        self._unsent.add(topic)
        self._pending.set()
        self._ensure_running()

    @contextmanager
    def subscribe(self, topic: str) -> Generator[asyncio.Event]:
        """An event that each publication of the topic sets. Clear it before looking for work."""
        event = asyncio.Event()
        self._subscribers.setdefault(topic, set()).add(event)
        self._ensure_running()
        try:
            yield event
        finally:
            self._subscribers[topic].discard(event)

    async def close(self) -> None:
        """Wait for a send that is under way: the server logs a connection cut in the middle as a failure."""
        if self._task is not None:
            self._closing.set()
            self._pending.set()
            await asyncio.wait([self._task], timeout=SEND_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ensure_running(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="notify_channel")

    async def _run(self) -> None:
        while not self._closing.is_set():
            with suppress(*_LOST):
                connection = await self._connect()
                try:
                    await self._serve(connection)
                    # The server logs a notification to a closed listener as a failure.
                    await connection.remove_listener(CHANNEL, self._receive)
                finally:
                    connection.terminate()
            await within(RECONNECT_SECONDS, self._closing)

    async def _serve(self, connection: Connection) -> None:
        lost = asyncio.Event()

        def on_lost(_: Connection) -> None:
            lost.set()
            self._pending.set()

        connection.add_termination_listener(on_lost)
        await connection.add_listener(CHANNEL, self._receive)
        for topic in self._subscribers:  # there may be work from before we listened
            self._wake(topic)
        while not (lost.is_set() or self._closing.is_set()):
            if not await within(CHECK_SECONDS, self._pending):
                await _execute(connection, "SELECT")
            self._pending.clear()
            while self._unsent:
                await self._send(connection)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, connection: Connection) -> None:
        payload = self._process
        while self._unsent and len(payload) < MAX_PAYLOAD_CHARACTERS:
            payload += " " + self._unsent.pop()
        await _execute(connection, "SELECT pg_notify($1, $2)", CHANNEL, payload)

    def _receive(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        sender, *topics = payload.split(" ")
        if sender != self._process:
            for topic in topics:
                self._wake(topic)

    def _wake(self, topic: str) -> None:
        for event in self._subscribers.get(topic, ()):
            event.set()


async def _execute(connection: Connection, query: str, *args: str) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await connection.execute(query, *args)
