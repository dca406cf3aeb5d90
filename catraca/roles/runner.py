"""The contract every role keeps, and the loop that runs a process's roles until it is told to stop.

A role is one coroutine. It works until `life.stopping` is set, then takes no new work, finishes or gives
back what it has in hand, and returns. Raising ends the whole process, loudly; a supervisor starts it again.
"""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from catraca.roles.parts import Parts

log = structlog.get_logger()

DRAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Life:
    """What a role is told about the process's life."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class Role(Protocol):
    async def run(self, life: Life) -> None: ...


class RoleType(Protocol):
    def __call__(self, parts: Parts) -> Role: ...


async def run_roles(roles: Sequence[Role], life: Life, *, drain_seconds: float = DRAIN_SECONDS) -> None:
    """Run until a signal or `life.stopping`; a role that fails stops the others and is raised."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, life.stopping.set)
    running = [asyncio.create_task(role.run(life), name=type(role).__name__) for role in roles]
    stopping = asyncio.create_task(life.stopping.wait())
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    life.stopping.set()
    log.info("draining", roles=[task.get_name() for task in running if not task.done()])
    _, late = await asyncio.wait(running, timeout=drain_seconds)
    for task in late:
        log.warning("drain_cut_short", role=task.get_name())
        task.cancel()
    results = await asyncio.gather(*running, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
