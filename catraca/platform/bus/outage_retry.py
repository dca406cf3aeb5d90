"""A server that is away is waited for: it is nobody's fault, and counts against nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from catraca.platform.database import Database
from catraca.platform.errors import Away, Busy, DatabaseUnavailable, OutcomeUnknown, Refusal
from catraca.platform.pauses import within

T = TypeVar("T")

AWAY = (Away, Busy, DatabaseUnavailable, OutcomeUnknown)
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# Work that finds the database busy or away this often, while it answers others, is itself the trouble.
BUSY_AT_MOST = 20


class Stopped(Exception):
    """It is time to stop, and the work is not done."""


class Patience:
    """Tries again, later and later, until it goes or `stopping` is set."""

    def __init__(
        self,
        database: Database,
        stopping: asyncio.Event,
        *,
        paused: Callable[[], None] = lambda: None,
    ) -> None:
        """`paused` is told of each pause."""
        self._database = database
        self._stopping = stopping
        self._paused = paused

    async def through(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, through any outage; raises `Stopped`, or the outage itself where only this work sees one."""
        pauses = blamed = 0
        while True:
            try:
                return await work()
            except AWAY as error:
                pauses += 1
                self._paused()
                if await within(_pause_seconds(pauses), self._stopping):
                    raise Stopped from error
                blamed += isinstance(error, Refusal) and await self._database.takes_writes()
                if blamed >= BUSY_AT_MOST:
                    raise


def _pause_seconds(count: int) -> float:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(count, 10))
    return longest * random.uniform(0.5, 1)  # noqa: S311
