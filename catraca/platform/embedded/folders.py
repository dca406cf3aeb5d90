"""Folders of the servers' files: in the state folder, or where the servers' account can reach them."""

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.embedded.account import Account, can_enter, choose_account
from catraca.platform.embedded.errors import StateFolderUnusable

# For data whose state folder the servers' account cannot enter, such as a folder in root's home.
SHARED = Path("/var/lib/catraca")
# The kernel's limit for a socket's path is 107 bytes; PostgreSQL's name is the longer one.
SOCKET_PATH_BYTES = 107
LONGEST_SOCKET_NAME = "/.s.PGSQL.5432"
# Libraries split socket folders in URLs at commas and colons, so other paths are not used for sockets.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
TEMP_NAMES = 8


@dataclass(frozen=True, slots=True)
class Home:
    """A state folder, the account of its servers, and the folder (`base`) of their files."""

    state: Path
    base: Path
    account: Account

    def data(self, name: str) -> Path | None:
        """A server's data folder, links followed; None without one. Raises if the account cannot enter it."""
        found = find_data(self.state, name)
        if found is None and self.base != self.state and (self.base / name).exists():
            found = self.base / name
        if found is not None and not can_enter(self.account, found):
            raise StateFolderUnusable(
                f"the account {self.account.name} cannot enter {found}: make it the owner (chown -R), "
                "let it pass the folders above, or move the state folder and name it with CATRACA_STATE_DIR"
            )
        return found

    def show(self, name: str, say: Callable[[str], None]) -> None:
        """Make a link in the state folder to data in another folder, so that people find them."""
        link, data = self.state / name, self.base / name
        if link != data and not link.exists():
            link.symlink_to(data)
            say(f"The account {self.account.name} cannot enter {self.state}: {link.name} lives in {data}")


def open_home(state_dir: Path) -> Home:
    """Make the state folder and choose the folder of its servers' files."""
    state = make_state_folder(state_dir)
    account = choose_account(state, find_data(state, "postgres"))
    if can_enter(account, state):
        return Home(state, state, account)
    base = SHARED / _digest(state)
    try:
        make_folder(SHARED, 0o755)
        make_folder(base, 0o711)
    except OSError as error:
        raise StateFolderUnusable(_out_of_reach(account, state, f"and {base}: {error.strerror}")) from error
    for folder in (SHARED, base):
        if folder.lstat().st_uid != os.geteuid():
            raise StateFolderUnusable(_out_of_reach(account, state, f"and {folder} is another user's"))
    if not can_enter(account, base):
        raise StateFolderUnusable(_out_of_reach(account, state, f"nor {base}"))
    return Home(state, base, account)


def make_state_folder(state_dir: Path) -> Path:
    """Make the state folder and missing parents. Existing folders keep their mode and owner."""
    state = state_dir.resolve()
    # As root: the servers' account may pass through, but not list the folder.
    mode = 0o711 if os.geteuid() == 0 else 0o700
    try:
        missing = [folder for folder in (state, *state.parents) if not folder.exists()]
        for folder in reversed(missing):
            make_folder(folder, mode if folder == state else 0o755)
    except OSError as error:
        raise StateFolderUnusable(
            f"the state folder {state} cannot be made ({error.strerror}): choose one with CATRACA_STATE_DIR"
        ) from error
    return state


def find_data(state: Path, name: str) -> Path | None:
    """The folder at `<state>/<name>`, links followed; None without one."""
    path = state / name
    if path.exists():
        return path.resolve()
    if path.is_symlink():
        raise StateFolderUnusable(
            f"{path} points to {path.readlink()}, which is not there: bring it back, "
            "or remove the link to begin with empty data"
        )
    return None


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder with this mode, ignoring the umask. An existing one is not changed."""
    try:
        folder.mkdir(mode)
    except FileExistsError:
        return
    folder.chmod(mode)


def own_folder(folder: Path, account: Account) -> Path:
    """Make a folder that only the account may use. Raises if it belongs to another user."""
    if not _make_private(folder, account):
        raise StateFolderUnusable(
            f"{folder} cannot be made, or belongs to another user than {account.name}: "
            "run Catraca as the user who ran it before, or choose another folder with CATRACA_STATE_DIR"
        )
    return folder


def run_folder(home: Home) -> Path:
    """The private folder of the sockets: beside the data, or in the temp folder if that path is too long."""
    folder = home.base / "run"
    if _fits_socket(folder):
        return own_folder(folder, home.account)
    for parent in dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))):  # noqa: S108 - ownership is checked
        for number in range(TEMP_NAMES):
            folder = parent / f"catraca-{_digest(home.state)}-{number}"
            if _fits_socket(folder) and _make_private(folder, home.account):
                if can_enter(home.account, folder):
                    return folder
                folder.rmdir()
    raise StateFolderUnusable(
        f"no private folder for sockets can be made in {tempfile.gettempdir()}: "
        "choose a shorter state folder with CATRACA_STATE_DIR"
    )


def _make_private(folder: Path, account: Account) -> bool:
    """Make the folder for the account with mode 0700; False if another user's folder or a link is there."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid not in (account.uid, os.geteuid()):
            return False
        os.fchmod(descriptor, 0o700)
        account.take(descriptor)
    finally:
        os.close(descriptor)
    return True


def _fits_socket(folder: Path) -> bool:
    path = f"{folder}{LONGEST_SOCKET_NAME}"
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and PLAIN_PATH.fullmatch(path) is not None


def _digest(state: Path) -> str:
    return hashlib.sha256(os.fsencode(state)).hexdigest()[:12]


def _out_of_reach(account: Account, state: Path, why: str) -> str:
    return (
        f"the account {account.name} cannot enter {state} ({why}): choose a state folder "
        "that it can reach with CATRACA_STATE_DIR, or run as an ordinary user"
    )
