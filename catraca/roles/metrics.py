"""The folder in which all processes of a state folder keep their metrics, so that /metrics covers them all.

Every process that writes there holds a shared lock on the folder. A process that gets the lock exclusively is
the first, and empties the folder; one that does not knows that other processes of this state folder live.
"""

import fcntl
import os
from pathlib import Path
from typing import Any, cast

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class MetricsFolder:
    """`<state_dir>/metrics`, made when missing; held from `join` until the process ends."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir.resolve() / "metrics"
        self.path.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            # A run as root must not keep the state folder's owner from writing there later.
            owner = self.path.parent.stat()
            os.chown(self.path, owner.st_uid, owner.st_gid)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor of the lock; a process that inherits it holds the lock too, from its start."""
        return self._descriptor

    def in_use(self) -> bool:
        """True while other processes write there."""
        if not self._alone():
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def join(self) -> None:
        """Write there from now on. Call it before importing `prometheus_client`, which reads it once."""
        if self._alone():
            for old in self.path.glob("*.db"):
                old.unlink(missing_ok=True)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        os.environ[VARIABLE] = str(self.path)

    def forget(self, pid: int) -> None:
        """Remove the gauges of an ended process; its counters stay."""
        from prometheus_client import multiprocess

        cast(Any, multiprocess).mark_process_dead(pid, str(self.path))

    def _alone(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
