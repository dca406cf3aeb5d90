"""Where the processes of one state folder leave their figures, so that /metrics covers all of them.

Everyone who writes there holds a shared lock on the folder. Whoever gets it alone comes first, and may empty
it; whoever cannot get it alone knows that processes of this state folder still live.
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
            # Root may pass by once; the state folder's owner must be able to tidy up afterwards.
            owner = self.path.parent.stat()
            os.chown(self.path, owner.st_uid, owner.st_gid)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def fileno(self) -> int:
        """What holds the lock. Whoever inherits it holds the lock too, from before its first line on."""
        return self._descriptor

    def in_use(self) -> bool:
        """Whether other processes write there."""
        if not self._alone():
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def join(self) -> None:
        """Write there from now on; call it before anything imports `prometheus_client`, which looks once."""
        if self._alone():
            for old in self.path.glob("*.db"):
                old.unlink(missing_ok=True)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        os.environ[VARIABLE] = str(self.path)

    def forget(self, pid: int) -> None:
        """Drop the gauges of a process that ended; what it counted stays counted."""
        from prometheus_client import multiprocess

        cast(Any, multiprocess).mark_process_dead(pid, str(self.path))

    def _alone(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
