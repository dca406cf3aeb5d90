"""Rounds of the event storms: processes of `world.py` are killed, frozen and stopped."""

import asyncio
import random
from collections.abc import Sequence
from signal import SIGCONT, SIGKILL

from tests import servers
from tests.servers import until
from tests.storms.checks import failed_checks
from tests.storms.events.checks import CHECKS
from tests.storms.events.process import LEASE_SECONDS
from tests.storms.events.room import EventWorld
from tests.storms.events.windows import WINDOWS
from tests.storms.processes import Process, ended, stop

ALL = ("writer", "relay", "consumers")
# The part that passes each window.
WHOSE = {
    **dict.fromkeys(WINDOWS[:2], "writer"),
    **dict.fromkeys(WINDOWS[2:5], "relay"),
    **dict.fromkeys(WINDOWS[5:], "consumers"),
}
# A victim is killed at a random passage up to this one, which it reaches within a second or two.
PASSAGES = {
    **dict.fromkeys(WINDOWS[:2], 100),
    **dict.fromkeys(WINDOWS[2:5], 10),
    **dict.fromkeys(WINDOWS[5:7], 100),
    "during_retry": 10,
}
# More than a writer reaches before it is stopped.
WITHOUT_END = 100_000
PROGRESS = 50
WRITER_PAUSE_SECONDS = 0.05


async def die_in_windows(room: EventWorld, windows: Sequence[str], *, more: int, apart: bool) -> None:
    """Processes die one after another, each in the next window; the last one makes `more` changes and lives.

    `apart`: only the part that passes the window dies, and another process with the other parts lives on;
    else one process has all parts.
    """
    for window in windows:
        dying = (WHOSE[window],) if apart else ALL
        others = [part for part in ALL if part not in dying]
        writing = {"changes": WITHOUT_END, "writer_pause_seconds": WRITER_PAUSE_SECONDS}
        beside = [room.start(*others, **writing)] if apart else []
        passage = random.randint(1, PASSAGES[window])
        victim = room.start(*dying, **writing, window=window, passage=passage)
        assert await ended(victim) == -SIGKILL, f"it never reached {window}"
        await stop(*beside)
    changes = await room.changes() + more
    room.start(*ALL, changes=changes)
    await room.finish(changes=changes)


async def jostle(room: EventWorld, *, rounds: int) -> None:
    """Run several relays and consumers, while one after another is frozen, stopped or killed."""
    writer = room.start("writer", changes=WITHOUT_END, writer_pause_seconds=WRITER_PAUSE_SECONDS)
    relays = [room.start("relay") for _ in range(3)]
    consumers = [room.start("consumers") for _ in range(2)]
    for _ in range(rounds):
        for place, trouble in enumerate((freeze, replace_politely, replace_by_force)):
            # Both consumers: one of them is the active one, and the other must take over.
            for processes, victim in ((relays, place), (consumers, 0), (consumers, 1)):
                await _goes_on(room)
                processes[victim] = await trouble(room, processes[victim])
    await _goes_on(room)
    await stop(writer)
    await room.finish(changes=0)


async def freeze(_: EventWorld, process: Process) -> Process:
    """Freeze the process until its leases have expired and others took over, then resume it."""
    servers.freeze(process.pid)
    try:
        await asyncio.sleep(LEASE_SECONDS * 1.5)
    finally:
        process.send_signal(SIGCONT)
    return process


async def replace_politely(room: EventWorld, process: Process) -> Process:
    await stop(process)
    return room.start(*room.parts_of[process.pid])


async def replace_by_force(room: EventWorld, process: Process) -> Process:
    process.kill()
    await ended(process)
    return room.start(*room.parts_of[process.pid])


async def _goes_on(room: EventWorld) -> None:
    """Wait until `PROGRESS` more events have been applied."""
    async with room.connection() as db:
        before = await db.fetchval("SELECT count(*) FROM applied")
        try:
            await until(lambda: db.fetchval("SELECT count(*) >= $1 FROM applied", before + PROGRESS))
        except TimeoutError:
            failed = await failed_checks(db, CHECKS)
            raise AssertionError("\n".join(["no progress", *failed])) from None
