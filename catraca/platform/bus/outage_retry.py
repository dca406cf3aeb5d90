"""Retries work while a server is unavailable. Such failures do not count against a message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from catraca.platform.database import Database
from catraca.platform.errors import Away, Busy, DatabaseUnavailable, OutcomeUnknown, Refusal
from catraca.platform.pauses import backoff_seconds, within

T = TypeVar("T")

AWAY = (Away, Busy, DatabaseUnavailable, OutcomeUnknown)
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
# Work that fails this often while the database serves others is itself the cause.
BUSY_AT_MOST = 20


class Stopped(Exception):
    """It is time to stop, and the work is not done."""


class OutageRetry:
    """Retries with growing pauses, until the work is done or `stopping` is set."""

    def __init__(
        self,
        database: Database,
        stopping: asyncio.Event,
        *,
        on_pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._stopping = stopping
        self._on_pause = on_pause

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work through any outage; raises `Stopped`, or the outage if only this work has it."""
        pauses = blamed = 0
        while True:
            try:
                return await work()
            except AWAY as error:
                pauses += 1
                self._on_pause()
                seconds = backoff_seconds(pauses, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
                if await within(seconds, self._stopping):
                    raise Stopped from error
                blamed += isinstance(error, Refusal) and await self._database.takes_writes()
                if blamed >= BUSY_AT_MOST:
                    raise
