"""Servers as direct children that end with their parent, and their logs."""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from catraca.platform.embedded.account import ENVIRONMENT, Account

Steps = tuple[tuple[signal.Signals, float], ...]

LOG_BYTES = 10 * 1024 * 1024
TAIL_LINES = 20
TAIL_BYTES = 16 * 1024
POLL_SECONDS = 0.02
PR_SET_PDEATHSIG = 1


class ServerLog:
    """The log file of one server, opened for appending. `news` and `tail` skip lines of earlier starts."""

    def __init__(self, path: Path, account: Account) -> None:
        self.path = path
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        account.take(self._descriptor)
        self._begin = self._seen = os.fstat(self._descriptor).st_size

    def fileno(self) -> int:
        """The descriptor that a child writes to."""
        return self._descriptor

    def news(self) -> bytes:
        """The bytes written since the last call; only the last `TAIL_BYTES` if there are more."""
        end = os.fstat(self._descriptor).st_size
        begin, self._seen = max(self._seen, end - TAIL_BYTES), end
        return os.pread(self._descriptor, end - begin, begin)

    def tail(self) -> list[str]:
        """The last lines written since this start."""
        end = os.fstat(self._descriptor).st_size
        begin = max(self._begin, end - TAIL_BYTES)
        text = os.pread(self._descriptor, end - begin, begin).decode(errors="replace")
        return text.splitlines()[-TAIL_LINES:]

    def close(self) -> None:
        """Close this process's descriptor; the child keeps its own."""
        os.close(self._descriptor)


class Child:
    """A started server process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative if a signal ended the process; None while it runs."""
        return self._process.poll()

    async def wait(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        try:
            ended = os.pidfd_open(self.pid) if self.exit_code is None else None
        except OSError:  # an old kernel, or a container that forbids it
            await until(lambda: self.exit_code is not None)
            return self._process.returncode
        if ended is not None:
            try:
                await _readable(ended)
            finally:
                os.close(ended)
        return self._process.wait()

    async def end(self, steps: Steps) -> None:
        """Send the signals one after another, each with its seconds to work, until the process has ended."""
        for number, seconds in steps:
            if self.exit_code is not None:
                return
            self._process.send_signal(number)
            await until(lambda: self.exit_code is not None, seconds=seconds)


async def _readable(descriptor: int) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


async def until(holds: Callable[[], bool], *, seconds: float | None = None) -> bool:
    """Poll until `holds` returns True or the seconds are over; returns its last result."""
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - no event for these
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return holds()
    return True


def spawn(command: list[str], account: Account, log: ServerLog, *, dies_by: signal.Signals) -> Child:
    """Start a child that gets the signal when this *thread* ends: call it from the main thread only."""
    process = subprocess.Popen(  # noqa: S603 - our own programs, no shell
        command,
        # Our own working folder may be closed to the account.
        cwd="/",
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=log.fileno(),
        stderr=log.fileno(),
        umask=0o077,
        # Ctrl-C in the terminal must reach Catraca alone, which then stops the servers in order.
        start_new_session=True,
        # Runs after the switch of user, which would clear the setting.
        preexec_fn=end_with_parent(dies_by),
        **account.switch(),
    )
    return Child(process)


def end_with_parent(number: signal.Signals) -> Callable[[], None]:
    prctl, parent = _prctl(), os.getpid()

    def in_child() -> None:
        if prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0 or os.getppid() != parent:
            # The parent died before the request took effect, so no signal would ever end this child.
            os._exit(1)

    return in_child


@cache
def _prctl() -> Callable[..., int]:
    """Loaded before the fork: a child of a threaded parent must not load libraries."""
    return ctypes.CDLL(None).prctl
