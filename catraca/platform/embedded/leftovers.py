"""Servers that outlived an earlier Catraca: found by their working folder, and ended."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.embedded.children import Steps, until

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Trace:
    """How a server appears in /proc: its program's name, its working folder, a mark in its command line."""

    program: str
    folder: Path
    mark: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process. `leads` is True for the server itself, False for a helper that it forked."""

    pid: int
    leads: bool


def find_leftovers(trace: Trace) -> list[Leftover]:
    """The living processes of that server on exactly that folder."""
    folder = trace.folder.stat()
    found = (_look_at(entry, trace, folder) for entry in PROC.iterdir() if entry.name.isdigit())
    return [leftover for leftover in found if leftover]


async def end_leftovers(trace: Trace, steps: Steps) -> bool:
    """End all leftovers, with the first signal to the server only; True if none is left."""
    for step, (number, seconds) in enumerate(steps):
        found = find_leftovers(trace)
        # To helpers the first signal has another meaning (to a checkpointer: "shut down alone").
        receivers = [one for one in found if one.leads or step > 0]
        for one in receivers:
            _signal(one.pid, number)
        if receivers and await until(lambda: not find_leftovers(trace), seconds=seconds):
            return True
    return not find_leftovers(trace)


def _look_at(entry: Path, trace: Trace, folder: os.stat_result) -> Leftover | None:
    try:
        if (entry / "comm").read_text().rstrip("\n") != trace.program:
            return None
        command = (entry / "cmdline").read_bytes()
        if not command or not _stands_in(entry, trace, folder, command):
            return None
    except (OSError, UnicodeDecodeError):
        # The process has ended meanwhile, or is not ours.
        return None
    return Leftover(int(entry.name), leads=not command.startswith(f"{trace.program}:".encode()))


def _stands_in(entry: Path, trace: Trace, folder: os.stat_result, command: bytes) -> bool:
    try:
        # By inode: the same path means another folder inside another container.
        return os.path.samestat((entry / "cwd").stat(), folder)
    except PermissionError:
        # Root in a container may not read other users' working folders; their command lines are public.
        return os.fsencode(trace.mark) in command


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
