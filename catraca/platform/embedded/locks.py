"""Locks on a state folder. The kernel releases a flock when its holders end, however they end."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from catraca.platform.embedded.errors import StateFolderInUse, StateFolderUnusable, WorkersStillRun
from catraca.platform.embedded.folders import make_state_folder

# A killed supervisor's workers drain for 9 s; a frozen one never ends.
WORKERS_SECONDS = 20.0
# Workers of a clean stop are gone by then, and no message is needed.
QUIET_SECONDS = 1.0
POLL_SECONDS = 0.05


class StateFolder:
    """A state folder, locked by this process until the process ends or releases it.

    `workers` is a second lock. Every process that `catraca up` starts inherits its descriptor and so holds it
    too, from before its first instruction until its end: the next `catraca up` waits for it.
    """

    def __init__(self, path: Path, descriptor: int, workers: int) -> None:
        self.path = path
        self._descriptors = [descriptor, workers]
        self.workers = workers

    def release(self) -> None:
        """Release both locks. Safe to repeat."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    async def wait_for_earlier_workers(self, say: Callable[[str], None]) -> None:
        """Return when no process of an earlier run lives; raise WorkersStillRun if one does not end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        said = False
        while not _try_flock(self.workers):
            waited = loop.time() - began
            if waited > WORKERS_SECONDS:
                raise WorkersStillRun(self.path / WORKERS_LOCK)
            if not said and waited > QUIET_SECONDS:
                said = True
                say("Waiting for workers of an earlier run to end")
            await asyncio.sleep(POLL_SECONDS)

    def __enter__(self) -> "StateFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


STATE_LOCK, WORKERS_LOCK = "lock", "workers.lock"


def lock_state_dir(state_dir: Path) -> StateFolder:
    """Make the state folder if needed and lock it, or raise StateFolderInUse."""
    state = make_state_folder(state_dir)
    descriptor = _open_lock(state, STATE_LOCK)
    if not _try_flock(descriptor):
        pid = _pid_in(descriptor)
        os.close(descriptor)
        raise StateFolderInUse(state, pid)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return StateFolder(state, descriptor, _open_lock(state, WORKERS_LOCK))


def _open_lock(state: Path, name: str) -> int:
    path = state / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateFolderUnusable(
            f"{path} cannot be opened ({error.strerror}): run as the folder's owner, "
            "or choose another folder with CATRACA_STATE_DIR"
        ) from error
    if os.geteuid() == 0:
        # A run as root must not keep the folder's owner from opening the lock later.
        owner = state.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def claim_folder(folder: Path) -> int:
    """Lock a data folder itself: a copied checkout may link to the data of another state folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not _try_flock(descriptor):
        os.close(descriptor)
        raise StateFolderInUse(folder, None)
    return descriptor


def keep_from_cleaners(folder: Path) -> int:
    """Take a shared lock on the sockets' folder, so that systemd-tmpfiles does not clean it up."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _try_flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _try_flock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
