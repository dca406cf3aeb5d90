"""Tells processes that there is work, so that nobody has to poll often.

A transaction that notifies takes a lock the whole server shares, so notifications leave from a connection of
their own, after the commit and a bounded number of times a second. They may be lost; everyone who waits
for one also looks by himself now and then.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import asyncpg

from catraca.platform.pauses import within

CHANNEL = "catraca"
# Between two notifications of one process.
PAUSE_SECONDS = 0.005
SEND_SECONDS = 2.0
# Whoever only listens would never learn that the other end is gone without a word.
CHECK_SECONDS = 15.0
RECONNECT_SECONDS = 1.0
MAX_PAYLOAD_CHARACTERS = 7000

Connection = Any  # asyncpg's, which has no types
_LOST = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class Wakeups:
    """One connection beside the pool, made when the first topic is announced or waited for."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._me = os.urandom(6).hex()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._unsent: set[str] = set()
        self._pending = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def announce(self, topic: str) -> None:
        """There is work under this topic: this process hears at once, the others a moment later."""
        self._wake(topic)
        self._unsent.add(topic)
        self._pending.set()
        self._ensure_running()

    @contextmanager
    def waiting_for(self, topic: str) -> Generator[asyncio.Event]:
        """An event that is set whenever the topic is announced; the waiter clears it before looking."""
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        self._ensure_running()
        try:
            yield event
        finally:
            self._waiting[topic].discard(event)

    async def close(self) -> None:
        """Let what is under way end: the server takes a connection cut in the middle for a failure."""
        if self._task is not None:
            self._closing.set()
            self._pending.set()
            await asyncio.wait([self._task], timeout=SEND_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ensure_running(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="wakeups")

    async def _run(self) -> None:
        while not self._closing.is_set():
            with suppress(*_LOST):
                connection = await self._connect()
                try:
                    await self._talk(connection)
                    # What is told to a listener that has gone is a failure to the server, too.
                    await connection.remove_listener(CHANNEL, self._hear)
                finally:
                    connection.terminate()
            await within(RECONNECT_SECONDS, self._closing)

    async def _talk(self, connection: Connection) -> None:
        lost = asyncio.Event()

        def tell(_: Connection) -> None:
            lost.set()
            self._pending.set()

        connection.add_termination_listener(tell)
        await connection.add_listener(CHANNEL, self._hear)
        for topic in self._waiting:  # whatever was announced while nobody listened
            self._wake(topic)
        while not (lost.is_set() or self._closing.is_set()):
            if not await within(CHECK_SECONDS, self._pending):
                await _ask(connection, "SELECT")
            self._pending.clear()
            while self._unsent:
                await self._send(connection)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, connection: Connection) -> None:
        payload = self._me
        while self._unsent and len(payload) < MAX_PAYLOAD_CHARACTERS:
            payload += " " + self._unsent.pop()
        await _ask(connection, "SELECT pg_notify($1, $2)", CHANNEL, payload)

    def _hear(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        sender, *topics = payload.split(" ")
        if sender != self._me:
            for topic in topics:
                self._wake(topic)

    def _wake(self, topic: str) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()


async def _ask(connection: Connection, query: str, *args: str) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await connection.execute(query, *args)
