"""One living process per folder: flock ends with its holder, so a killed one is no obstacle."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from catraca.platform.embedded.errors import StateFolderInUse, StateFolderUnusable
from catraca.platform.embedded.folders import make_state_folder


class StateFolder:
    """A state folder this process holds until it ends or releases it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let another process have the folder; safe to repeat."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> "StateFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_state_dir(state_dir: Path) -> StateFolder:
    """Make the state folder if needed and hold it for this process alone, or raise StateFolderInUse."""
    state = make_state_folder(state_dir)
    path = state / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateFolderUnusable(
            f"{path} cannot be opened ({error.strerror}): run as the folder's owner, "
            "or choose another folder with CATRACA_STATE_DIR"
        ) from error
    if not _try_flock(descriptor):
        pid = _pid_in(descriptor)
        os.close(descriptor)
        raise StateFolderInUse(state, pid)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    if os.geteuid() == 0:
        # Root may pass by once; the folder's owner must be able to take the lock again afterwards.
        owner = state.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return StateFolder(state, descriptor)


def claim_folder(folder: Path) -> int:
    """Hold a data folder itself: a copied checkout may link to the data of another state folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not _try_flock(descriptor):
        os.close(descriptor)
        raise StateFolderInUse(folder, None)
    return descriptor


def keep_from_cleaners(folder: Path) -> int:
    """Hold a shared lock on the sockets' folder: systemd-tmpfiles then leaves it alone, however old."""
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
