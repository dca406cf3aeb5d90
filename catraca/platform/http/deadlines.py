"""Time limits on requests. One look now and then at all that run costs a tenth of a timer for each."""

import asyncio
from typing import Protocol


class Limited(Protocol):
    """Something under way that must not go on after `deadline`, in the loop's time."""

    deadline: float

    def cut_off(self) -> None: ...


class Deadlines:
    """Cuts off what is late, at most `every_seconds` after its deadline."""

    def __init__(self, *, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._running: set[Limited] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def watch(self, limited: Limited) -> None:
        self._running.add(limited)
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(self._every_seconds, self._look)

    def release(self, limited: Limited) -> None:
        self._running.discard(limited)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for limited in [limited for limited in self._running if limited.deadline <= now]:
            self._running.discard(limited)
            limited.cut_off()
        # Nothing to watch, nothing to wake up for; the next request starts it again.
        self._next_look = loop.call_later(self._every_seconds, self._look) if self._running else None
