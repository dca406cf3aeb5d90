"""Waiting for something to happen, but never for ever."""

import asyncio


async def within(seconds: float, *events: asyncio.Event) -> bool:
    """Wait until one of the events is set, at most that long; whether one is."""
    if not any(event.is_set() for event in events):
        waiters = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
    return any(event.is_set() for event in events)
