"""Starts worker processes, replaces those that die, and drains them together."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from socket import socket
from typing import Any

from catraca.platform.clock import monotonic_seconds
from catraca.platform.embedded.children import Child, end_with_parent
from catraca.roles.metrics import MetricsFolder
from catraca.roles.runner import first_of

# Above what a worker takes by itself, below the 15 s that stopping may take in all.
DRAIN_SECONDS = 14.0
KILL_SECONDS = 0.5
EARLY_SECONDS = 5.0
EARLY_DEATHS_ALLOWED = 5
EARLY_DEATHS_WINDOW_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 2.0
# Exit code of a worker that cannot work with its settings or schema: another one could not either.
EXIT_REFUSED = 2


class WorkersFailed(Exception):
    """Workers keep dying, so no more are started."""


class Supervisor:
    """`count` processes of `python -m catraca serve ...` behind one inherited listening socket."""

    def __init__(
        self,
        roles: Sequence[str],
        *,
        count: int,
        metrics: MetricsFolder,
        say: Callable[[str], None],
        environment: Mapping[str, str],
        listener: socket | None = None,
        output: int | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """`inherited` are more descriptors that every worker keeps open, such as a lock."""
        self._count = count
        self._metrics = metrics
        self._say = say
        self._environment = {**os.environ, **environment}
        self._listener = listener
        self._output = output
        self._inherited = [metrics.fileno(), *inherited]
        if listener is not None:
            self._inherited.append(listener.fileno())
        self._living: set[Child] = set()
        self._early_deaths: deque[float] = deque(maxlen=EARLY_DEATHS_ALLOWED)
        # -P: a file in the caller's folder must not pass for one of our modules.
        self._command = [sys.executable, "-P", "-m", "catraca", "serve", *roles, "--workers", "1"]
        if listener is not None:
            self._command += ["--fd", str(listener.fileno())]

    @property
    def pids(self) -> list[int]:
        """The living workers."""
        return sorted(child.pid for child in self._living)

    async def keep(self) -> None:
        """Replace dead workers until canceled, which leaves them; raise WorkersFailed if they keep dying."""
        await first_of(*(self._keep_one() for _ in range(self._count)))

    async def drain(self, hurrying: asyncio.Event, *, seconds: float = DRAIN_SECONDS) -> None:
        """Let every worker finish its work, and return when all have ended."""
        if self._listener is not None:
            # The port closes when the last process closes it: from now on only the workers have it.
            self._listener.close()
        ending = [child.end(((signal.SIGTERM, seconds),)) for child in self._living]
        await first_of(_all(ending), hurrying.wait())
        late = [child for child in self._living if child.exit_code is None]
        if late:
            self._say(f"Ending {len(late)} worker(s) that did not finish in time")
        await _all(child.end(((signal.SIGKILL, KILL_SECONDS),)) for child in late)
        for child in self._living:
            self._metrics.forget(child.pid)

    async def _keep_one(self) -> None:
        while True:
            began = monotonic_seconds()
            child = self._spawn()
            code = await child.wait()
            self._living.discard(child)
            self._metrics.forget(child.pid)
            if code == EXIT_REFUSED:
                raise WorkersFailed("a worker refused to start; its last line says why")
            self._say(f"Worker {child.pid} ended ({how_it_ended(code)}); starting another")
            await asyncio.sleep(self._pause_seconds(monotonic_seconds() - began))

    def _spawn(self) -> Child:
        process = subprocess.Popen(  # noqa: S603 - our own program, no shell
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            # Locks among them show that a worker lives, even one that hangs before its first instruction.
            pass_fds=self._inherited,
            # Ctrl-C in the terminal must reach the supervisor alone, which then drains in order.
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        child = Child(process)
        self._living.add(child)
        return child

    def _pause_seconds(self, lived_seconds: float) -> float:
        """The pause before the next start; raises WorkersFailed after too many early deaths."""
        now = monotonic_seconds()
        while self._early_deaths and now - self._early_deaths[0] > EARLY_DEATHS_WINDOW_SECONDS:
            self._early_deaths.popleft()
        if lived_seconds > EARLY_SECONDS:
            return 0
        self._early_deaths.append(now)
        if len(self._early_deaths) == EARLY_DEATHS_ALLOWED:
            raise WorkersFailed(
                f"workers ended {EARLY_DEATHS_ALLOWED} times within seconds of starting; the log says why"
            )
        return min(0.1 * 2 ** len(self._early_deaths), LONGEST_PAUSE_SECONDS)


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works)
