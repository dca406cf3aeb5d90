"""Under which account the servers run: PostgreSQL refuses root, so root hands them to another."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from catraca.platform.embedded.errors import StateFolderUnusable

# The whole environment of a server: nothing of the caller's may change how it behaves.
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
PROBE_SECONDS = 10


class Switch(TypedDict, total=False):
    """The arguments of `subprocess` that change the user of a child."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A system account; `name` is missing only for the owner of old data who has left the system."""

    uid: int
    gid: int
    name: str | None

    @property
    def is_us(self) -> bool:
        """Whether the servers run as the user who runs Catraca."""
        return self.uid == os.geteuid()

    def switch(self) -> Switch:
        """Make a child run as this account, without any group of ours."""
        if self.is_us:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take(self, descriptor: int) -> None:
        """Give this account an open file or folder: a name could be swapped for a link meanwhile."""
        if not self.is_us:
            os.fchown(descriptor, self.uid, self.gid)


def choose_account(state: Path, data: Path | None) -> Account:
    """Who runs the servers: ourselves; for root the owner of what is there, else postgres, else nobody."""
    if os.geteuid() != 0:
        return _ourselves()
    if data is not None and (owner := data.stat()).st_uid != 0:
        return _owner(owner)
    # Under a bind mount the folder's owner may be a number this system has no name for; initdb needs one.
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
    """Whether the account really gets into the folder: tried, since modes do not tell of ACLs and mounts."""
    return _succeeds(account, ["/bin/sh", "-c", 'cd -P -- "$1"', "sh", str(folder)])


def can_run(account: Account, program: Path) -> bool:
    """Whether the account can start the program and load its libraries."""
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
