"""Limits on calls to other servers, in one process: turns by key, and pauses of hosts that do not answer."""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

from catraca.platform.clock import monotonic_seconds

HOSTS_REMEMBERED = 1000


class NoTurn(Exception):
    """The turn did not come in time."""


class _Turns:
    def __init__(self, at_once: int) -> None:
        self.free = asyncio.Semaphore(at_once)
        self.callers = 0


class KeyLimits:
    """At most `at_once` blocks of one key run at a time; others wait, `wait_seconds` at most."""

    def __init__(self, *, at_once: int, wait_seconds: float) -> None:
        self._at_once = at_once
        self._wait_seconds = wait_seconds
        self._turns: dict[Hashable, _Turns] = {}

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn of `key` and run the block; raises `NoTurn` if the wait is too long."""
        turns = self._turns.setdefault(key, _Turns(self._at_once))
        turns.callers += 1
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await turns.free.acquire()
            except TimeoutError as error:
                raise NoTurn from error
            try:
                yield
            finally:
                turns.free.release()
        finally:
            turns.callers -= 1
            if turns.callers == 0:
                del self._turns[key]


class HostPauses:
    """A host that did not answer `failures` calls in a row is not called for `pause_seconds`.

    After the pause it is called again; the next call without an answer pauses it at once.
    """

    def __init__(self, *, failures: int, pause_seconds: float) -> None:
        self._failures = failures
        self._pause_seconds = pause_seconds
        # Calls in a row without an answer, and the end of the pause.
        self._silent: dict[str, tuple[int, float]] = {}

    def is_paused(self, host: str) -> bool:
        return self._silent.get(host, (0, 0.0))[1] > monotonic_seconds()

    def record_answer(self, host: str) -> None:
        self._silent.pop(host, None)

    def record_silence(self, host: str) -> None:
        count = self._silent.pop(host, (0, 0.0))[0] + 1
        if len(self._silent) >= HOSTS_REMEMBERED:
            del self._silent[next(iter(self._silent))]
        until = monotonic_seconds() + self._pause_seconds if count >= self._failures else 0.0
        self._silent[host] = (count, until)
