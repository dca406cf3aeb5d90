"""Bounded waits, and growing pauses between retries."""

import asyncio
import random


async def within(seconds: float, *events: asyncio.Event) -> bool:
    """Wait until an event is set, at most `seconds`. True if one is set."""
    if not any(event.is_set() for event in events):
        waiters = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
    return any(event.is_set() for event in events)


def backoff_seconds(retry: int, *, first: float, longest: float) -> float:
    """The pause before a retry (1 is the first): doubles up to `longest`, of which 50 to 100 % at random."""
    return min(longest, first * 2 ** min(retry - 1, 30)) * random.uniform(0.5, 1)  # noqa: S311


class Backoff:
    """Pauses between the retries of a loop."""

    def __init__(self, *, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._retry = 0

    def next_seconds(self) -> float:
        self._retry += 1
        return backoff_seconds(self._retry, first=self._first, longest=self._longest)

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._retry = 0
