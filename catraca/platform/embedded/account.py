"""The system account of the servers: PostgreSQL refuses to run as root, so root uses another account."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from catraca.platform.embedded.errors import StateFolderUnusable

# The whole environment of a server: the caller's own must not change its behaviour.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
PROBE_SECONDS = 10


class Switch(TypedDict, total=False):
    """The arguments of `subprocess` that change the user of a child."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A system account. `name` is None only for the owner of old data whose account was deleted."""

    uid: int
    gid: int
    name: str | None

    @property
    def is_us(self) -> bool:
        """True if the servers run as the user that runs Catraca."""
        return self.uid == os.geteuid()

    def switch(self) -> Switch:
        """Options that run a child as this account, without our groups."""
        if self.is_us:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take(self, descriptor: int) -> None:
        """Make this account the owner of an open file or folder: a path could become a link."""
        if not self.is_us:
            os.fchown(descriptor, self.uid, self.gid)


def choose_account(state: Path, data: Path | None) -> Account:
    """Our own account; for root the owner of the existing data, else `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return _ourselves()
    if data is not None and (owner := data.stat()).st_uid != 0:
        return _owner(owner)
    # In a bind mount the folder's owner may have no name on this system; initdb needs one.
    if (owner := state.stat()).st_uid != 0 and (account := _owner(owner)).name:
        return account
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, name)
    raise StateFolderUnusable(
        "PostgreSQL does not run as root and this system has no account `postgres` or `nobody`: "
        "run as an ordinary user, or give CATRACA_DATABASE_URL"
    )


def can_enter(account: Account, folder: Path) -> bool:
    """True if the account can enter the folder. Tried, since modes do not show ACLs and mounts."""
    return _succeeds(account, ["/bin/sh", "-c", 'cd -P -- "$1"', "sh", str(folder)])


def can_run(account: Account, program: Path) -> bool:
    """True if the account can start the program and load its libraries."""
    return _succeeds(account, [str(program), "--version"])


def _succeeds(account: Account, command: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell reads the arguments
            command,
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
            check=False,
            **account.switch(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _ourselves() -> Account:
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        raise StateFolderUnusable(
            f"user id {uid} has no name on this system, and PostgreSQL needs one: "
            "add it to /etc/passwd, or give CATRACA_DATABASE_URL and CATRACA_REDIS_URL"
        ) from None
    return Account(uid, os.getegid(), name)


def _owner(stat: os.stat_result) -> Account:
    try:
        entry = pwd.getpwuid(stat.st_uid)
    except KeyError:
        return Account(stat.st_uid, stat.st_gid, None)
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
