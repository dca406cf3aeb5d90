"""The log file of the workers, which write to it directly and need no reader.

The parent process follows it, shows warnings and errors in short, and rotates it.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

LOG_BYTES = 10 * 1024 * 1024
READ_BYTES = 1024 * 1024
FOLLOW_SECONDS = 0.2
SHOWN_AT_ONCE = 5
SHOWN_CHARACTERS = 300
SHOWN_LEVELS = (b'"level":"warning"', b'"level":"error"', b'"level":"critical"')
# Keys that are not shown.
HIDDEN_KEYS = {"event", "level", "timestamp", "exception", "request_id", "logger"}


class WorkerLog:
    """`<state_dir>/log/catraca.log`, appended by all workers; the previous file is `.1`."""

    def __init__(self, state_dir: Path) -> None:
        folder = state_dir / "log"
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / "catraca.log"
        # The folder may belong to the servers' account: root must not follow a link from there.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if os.geteuid() == 0:
            owner = state_dir.stat()
            os.fchown(self._descriptor, owner.st_uid, owner.st_gid)
        self._seen = os.fstat(self._descriptor).st_size
        self._rest = b""

    def fileno(self) -> int:
        """The descriptor that workers write to."""
        return self._descriptor

    async def follow(self, show: Callable[[str], None]) -> None:
        """Show new warnings and errors in short, until canceled."""
        try:
            while True:
                self.show_new(show)
                self.rotate_if_large()
                await asyncio.sleep(FOLLOW_SECONDS)
        finally:
            self.show_new(show)

    def show_new(self, show: Callable[[str], None]) -> None:
        """Show the warnings and errors written since the last call."""
        shown: list[bytes] = []
        while new := os.pread(self._descriptor, READ_BYTES, self._seen):
            self._seen += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            shown += [line for line in lines if line and _is_shown(line)]
        for line in shown[:SHOWN_AT_ONCE]:
            show(_shortened(line))
        if len(shown) > SHOWN_AT_ONCE:
            show(f"... and {len(shown) - SHOWN_AT_ONCE} more in {self.path}")

    def rotate_if_large(self) -> None:
        """Copy and truncate the file: the workers keep writing to the same descriptor."""
        if os.fstat(self._descriptor).st_size <= LOG_BYTES:
            return
        previous = self.path.with_name(f"{self.path.name}.1")
        previous.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(self.path, "rb") as source, os.fdopen(os.open(previous, flags, 0o600), "wb") as target:
            shutil.copyfileobj(source, target)
        os.ftruncate(self._descriptor, 0)
        self._seen, self._rest = 0, b""


def _is_shown(line: bytes) -> bool:
    # A line that is not JSON is unexpected, such as a traceback.
    return not line.startswith(b"{") or any(mark in line for mark in SHOWN_LEVELS)


def _shortened(line: bytes) -> str:
    try:
        event: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        return line.decode(errors="replace")[:SHOWN_CHARACTERS]
    words = [str(event.get("level", "")), str(event.get("event", ""))]
    words += [f"{key}={value}" for key, value in event.items() if key not in HIDDEN_KEYS]
    if chain := event.get("exception"):
        words.append(f"({chain[0].get('type')} at {(chain[0].get('frames') or ['?'])[-1]})")
    return " ".join(words)[:SHOWN_CHARACTERS]
