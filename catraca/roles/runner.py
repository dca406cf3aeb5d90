"""The contract of roles and agents, and the loop that runs the roles of one process.

A role is one coroutine. It works until `life.stopping` is set, then takes no new work, finishes or returns
the work it has, and ends. If a role raises, or ends too early, the whole process ends; a supervisor starts
it again.
"""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from catraca.platform.errors import Away, Refusal
from catraca.platform.pauses import within

if TYPE_CHECKING:
    from catraca.roles.parts import Parts

log = structlog.get_logger()

# How often gauges are measured.
MEASURE_SECONDS = 5.0
# Below 15 s together with the time to close connections.
DRAIN_SECONDS = 9.0


@dataclass(frozen=True, slots=True)
class Life:
    """The two requests to a process: stop, and stop at once."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hurrying: asyncio.Event = field(default_factory=asyncio.Event)

    def handle_signals(self) -> None:
        """SIGTERM, Ctrl-C and a closed terminal stop; a second Ctrl-C stops at once."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stopping.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
            loop.add_signal_handler(signal.SIGHUP, self.stopping.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _interrupt(self) -> None:
        (self.hurrying if self.stopping.is_set() else self.stopping).set()


class Role(Protocol):
    async def run(self, life: Life) -> None: ...


class RoleType(Protocol):
    def __call__(self, parts: "Parts") -> Role: ...


class RoleFailed(Exception):
    """A role raised or ended too early; the log has its traceback."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"{' and '.join(names)} failed; the log says where")


def settle_memory() -> None:
    """Exclude what the start has made from garbage collection: it stays, and looking at it takes 100 ms."""
    gc.collect()
    gc.freeze()


async def run_roles(roles: Sequence[Role], life: Life, *, drain_seconds: float = DRAIN_SECONDS) -> None:
    """Run until `life.stopping`, then drain. If a role fails, the others stop and RoleFailed is raised."""
    running = [asyncio.create_task(role.run(life), name=type(role).__name__) for role in roles]
    await first_of(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED), life.stopping.wait())
    failed = [] if life.stopping.is_set() else [task for task in running if task.done()]
    if not failed:
        log.info("draining", roles=[task.get_name() for task in running])
    life.stopping.set()
    await first_of(asyncio.wait(running, timeout=drain_seconds), life.hurrying.wait())
    for task in running:
        if not task.done():
            log.warning("drain_cut_short", role=task.get_name())
            task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    failed += [task for task in running if not task.cancelled() and task.exception() and task not in failed]
    for task in failed:
        log.error(
            "role_failed", role=task.get_name(), exc_info=None if task.cancelled() else task.exception()
        )
    if failed:
        raise RoleFailed([task.get_name() for task in failed])


async def repeat(job: Callable[[], Awaitable[None]], seconds: float, life: Life) -> None:
    """Run the job now and then every `seconds` until the process stops.

    While a server is unavailable the job is skipped: the next run finds the same work.
    """
    while not life.stopping.is_set():
        with suppress(Away, Refusal):
            await job()
        await within(seconds, life.stopping)


async def measure(job: Callable[["Parts"], Awaitable[None]], parts: "Parts", life: Life) -> None:
    """Set the gauges of `job` again and again until the process stops."""
    await repeat(lambda: job(parts), MEASURE_SECONDS, life)


async def first_of(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Run concurrently until the first ends, then cancel the others; raises a failure."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(tasks)


async def all_of(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Run concurrently until all have ended; the first failure cancels the others and is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION) if tasks else ((), ())
        for task in done:
            task.result()
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
