"""The base class of both embedded servers: starting, stopping, failing."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from typing import ClassVar

from catraca.platform.embedded.children import Child, ServerLog, Steps, spawn
from catraca.platform.embedded.errors import EmbeddedServerFailed, StateFolderUnusable
from catraca.platform.embedded.folders import Home, open_home, own_folder, run_folder
from catraca.platform.embedded.leftovers import Trace, end_leftovers, find_leftovers
from catraca.platform.embedded.locks import claim_folder, keep_from_cleaners

START_SECONDS = 60.0


def _silent(_message: str) -> None:
    return


class EmbeddedServer(ABC):
    """One server on one state folder. Lock the folder with `lock_state_dir` first."""

    title: ClassVar[str]
    log_name: ClassVar[str]
    dies_by: ClassVar[Signals]
    steps: ClassVar[Steps]

    def __init__(self, state_dir: Path, *, on_progress: Callable[[str], None] = _silent) -> None:
        self._state_dir = state_dir.absolute()
        self._say = on_progress
        self._child: Child | None = None
        self._trace: Trace | None = None
        self._url: str | None = None
        self._log: ServerLog
        self._held = ExitStack()

    @property
    def url(self) -> str:
        """The URL for clients, after the start."""
        if self._url is None:
            raise RuntimeError(f"{self.title} was not started")
        return self._url

    @property
    def pid(self) -> int:
        """The server's process id, after the start."""
        return self._started().pid

    async def start(self) -> None:
        """Start the server, whatever an earlier run left in its folder; returns when it answers.

        Call it from the main thread: the kernel ends the server with the thread that started it.
        """
        if self._child is not None and self._child.exit_code is None:
            raise RuntimeError(f"{self.title} already runs")
        await self.stop()
        try:
            async with asyncio.timeout(START_SECONDS) as limit:
                home = open_home(self._state_dir)
                self._log = ServerLog(
                    own_folder(home.state / "log", home.account) / self.log_name, home.account
                )
                self._held.callback(self._log.close)
                await self._bring_up(home, limit)
        except TimeoutError as error:
            failure = self._failure(f"did not become ready within {START_SECONDS:.0f} s")
            await self.stop()
            raise failure from error
        except OSError as error:
            await self.stop()
            raise StateFolderUnusable(
                f"{self.title} cannot use {self._state_dir} ({error}): free the disk or mend the folder, "
                "or choose another one with CATRACA_STATE_DIR"
            ) from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the server within a time limit. Safe to repeat, and after its death."""
        if self._child is not None:
            await self._child.end(self.steps)
        # A killed server leaves child processes, which use the data folder.
        if self._trace is not None and self._trace.folder.exists():
            await end_leftovers(self._trace, self.steps)
        # From here on another process may use the folder; a second call must not end *its* server.
        self._trace = None
        self._held.close()

    async def wait(self) -> int:
        """Wait for the end of the server; returns its exit code."""
        return await self._started().wait()

    @abstractmethod
    async def _bring_up(self, home: Home, limit: asyncio.Timeout) -> None:
        """Prepare the folder, launch, and return when the server answers."""

    async def _take_over(self, trace: Trace) -> None:
        """Lock the data folder and end the processes that an earlier run left on it."""
        self._held.callback(os.close, claim_folder(trace.folder))
        self._trace = trace
        if found := find_leftovers(trace):
            self._say(
                f"Ending {len(found)} processes of {self.title} which an earlier run left in {trace.folder}"
            )
            if not await end_leftovers(trace, self.steps):
                raise self._failure(f"still has processes in {trace.folder} that do not end")

    def _hold_run_folder(self, home: Home) -> Path:
        run = run_folder(home)
        self._held.callback(os.close, keep_from_cleaners(run))
        return run

    def _launch(self, command: list[str], home: Home, *, dies_by: Signals | None = None) -> Child:
        try:
            self._child = spawn(command, home.account, self._log, dies_by=dies_by or self.dies_by)
        except OSError as error:
            raise self._failure(f"cannot be started as {home.account.name}: {error}") from error
        return self._child

    def _ensure_alive(self) -> None:
        code = self._started().exit_code
        if code is not None:
            raise self._failure(f"ended while starting (exit code {code})")

    def _failure(self, what: str) -> EmbeddedServerFailed:
        return EmbeddedServerFailed(self.title, what, self._log.tail())

    def _started(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"{self.title} was not started")
        return self._child
