"""The embedded PostgreSQL. It holds the facts, so its data are never deleted or replaced."""

import asyncio
import hashlib
import os
import pwd
import shutil
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT
from tempfile import mkdtemp
from typing import Any, ClassVar, cast

import asyncpg

from catraca.platform.embedded.account import Account
from catraca.platform.embedded.children import POLL_SECONDS, Steps
from catraca.platform.embedded.errors import DataFolderForeign
from catraca.platform.embedded.folders import Home, own_folder
from catraca.platform.embedded.leftovers import Trace
from catraca.platform.embedded.programs import bring_within_reach, locate_postgres
from catraca.platform.embedded.server import START_SECONDS, EmbeddedServer

MAJOR = "18"
NAME = "catraca"
CONNECT_SECONDS = 10
# The line of postmaster.pid with the server's state.
STATUS_LINE = 7
RECOVERY_GOES_ON = b"in progress, elapsed time"

# On the command line they override every file: a newer Catraca can change them, and edited files cannot.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    # After a checkpoint, the first change of a page writes the whole page into the log. With the default of
    # 1 GB, a burst of sign-ups among a million users causes a checkpoint every few seconds.
    "max_wal_size": "2GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    # Statements, parameters and details can hold personal data; the log must not.
    "log_statement": "none",
    "log_min_messages": "log",  # without errors, whose text quotes values; the client gets them
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}

MEBIBYTE = 2**20
LEAST_BUFFERS, MOST_BUFFERS = 128 * MEBIBYTE, 1024 * MEBIBYTE
# The limit of a container, with the second and the first version of control groups.
MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

INITDB_OPTIONS = (
    f"--username={NAME}",
    "--encoding=UTF8",
    # PostgreSQL's own C.UTF-8: an upgrade of the system's C library cannot change the order of indexes.
    "--locale=C.UTF-8",
    "--locale-provider=builtin",
    "--auth=peer",
    "--data-checksums",
    "--no-instructions",
)


class EmbeddedPostgres(EmbeddedServer):
    """PostgreSQL on `<state_dir>/postgres`, on a Unix socket that only this user can open."""

    title: ClassVar[str] = "PostgreSQL"
    log_name: ClassVar[str] = "postgres.log"
    dies_by = SIGINT
    # Fast shutdown, immediate shutdown, kill.
    steps: ClassVar[Steps] = ((SIGINT, 8.0), (SIGQUIT, 6.0), (SIGKILL, 5.0))

    async def _bring_up(self, home: Home, limit: asyncio.Timeout) -> None:
        programs = bring_within_reach(locate_postgres(), home, self._say)
        data = home.data("postgres")
        if data is None or not any(data.iterdir()):
            data = await self._make_cluster(programs, home, data or home.base / "postgres")
        else:
            _check_version(data)
            await self._take_over(_trace(data))
        home.show("postgres", self._say)
        run = self._hold_run_folder(home)
        _remove_stale_files(data, run)
        _write_access_rules(data, home.account)
        settings = SETTINGS | {
            "shared_buffers": shared_buffers(_memory_bytes()),
            "unix_socket_directories": str(run),
            "cluster_name": _trace(data).mark,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        child = self._launch([str(programs / "postgres"), "-D", str(data), *options], home)
        await self._until_ready(data, child.pid, limit)
        await self._ensure_database(run)
        self._url = _url(run, NAME)

    async def _make_cluster(self, programs: Path, home: Home, target: Path) -> Path:
        """Make the data under a temporary name and rename it: data with the final name are complete."""
        self._say(f"Making a new PostgreSQL database in {target}")
        for unfinished in _unfinished(target):
            await self._take_over(_trace(unfinished))
            shutil.rmtree(unfinished, ignore_errors=True)
        # Each attempt has its own folder: children of a killed initdb may still write into the old one.
        fresh = own_folder(Path(mkdtemp(prefix=f"{target.name}.new-", dir=target.parent)), home.account)
        await self._take_over(_trace(fresh))
        command = [str(programs / "initdb"), "-D", str(fresh), *INITDB_OPTIONS]
        # Killed: on other signals initdb continues for a while and then deletes its files.
        initdb = self._launch(command, home, dies_by=SIGKILL)
        code = await initdb.wait()
        if code != 0:
            raise self._failure(f"could not make its data folder (initdb ended with {code})")
        fresh.rename(target)
        _sync_folder(target.parent)
        self._trace = _trace(target)
        return target

    async def _until_ready(self, data: Path, pid: int, limit: asyncio.Timeout) -> None:
        """Wait for the state in the server's file: connecting before would fill its log."""
        while not _reports_ready(data, pid):
            self._ensure_alive()
            if RECOVERY_GOES_ON in self._log.news():
                # A server that is ended during its recovery starts the recovery again.
                self._say("PostgreSQL is still recovering from an unclean end")
                limit.reschedule(asyncio.get_running_loop().time() + START_SECONDS)
            await asyncio.sleep(POLL_SECONDS)

    async def _ensure_database(self, run: Path) -> None:
        try:
            url = _url(run, "postgres")
            connection = cast(Any, await asyncpg.connect(url, timeout=CONNECT_SECONDS))  # pyright: ignore[reportUnknownMemberType]
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", NAME):
                await connection.execute(f"CREATE DATABASE {NAME} TEMPLATE template0")
            await connection.close()
        except (OSError, asyncpg.PostgresError) as error:
            raise self._failure(f"does not let Catraca in ({error})") from error


def shared_buffers(memory_bytes: int) -> str:
    """A quarter of the memory, within limits: indexes with random order should fit."""
    return f"{min(max(memory_bytes // 4, LEAST_BUFFERS), MOST_BUFFERS) // MEBIBYTE}MB"


def _memory_bytes() -> int:
    """The machine's memory, or the limit of the container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or `max`
            memory = min(memory, int(path.read_text()))
    return memory


def _url(run: Path, database: str) -> str:
    # With the port: else PGPORT of the environment would be used.
    return f"postgresql://{NAME}@/{database}?host={run}&port={SETTINGS['port']}"


def _unfinished(target: Path) -> list[Path]:
    return list(target.parent.glob(f"{target.name}.new-*"))


def _trace(data: Path) -> Trace:
    # The cluster's name is in the title of each of its processes.
    return Trace("postgres", data, f"{NAME}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:12]}")


def _check_version(data: Path) -> None:
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise DataFolderForeign(
            f"{data} holds something, but no PostgreSQL data: move it away, "
            "or choose another folder with CATRACA_STATE_DIR"
        ) from None
    if found != MAJOR:
        raise DataFolderForeign(
            f"{data} was made by PostgreSQL {found}, and this Catraca brings {MAJOR}: dump it with the "
            f"Catraca that made it and restore it here, or run PostgreSQL {found} on it and give "
            "CATRACA_DATABASE_URL"
        )


def _remove_stale_files(data: Path, run: Path) -> None:
    """No server runs on this folder any more; the process id in the file may be another process's now."""
    for path in (data / "postmaster.pid", run / ".s.PGSQL.5432", run / ".s.PGSQL.5432.lock"):
        path.unlink(missing_ok=True)


def _write_access_rules(data: Path, account: Account) -> None:
    """Allow Catraca's user and the server's own account as `catraca`, authenticated by the kernel (peer)."""
    names = dict.fromkeys((pwd.getpwuid(os.geteuid()).pw_name, account.name))
    users = "".join(f'{NAME} "{name}" {NAME}\n' for name in names if name)
    _write_file(data / "pg_hba.conf", f"local all {NAME} peer map={NAME}\n", account)
    _write_file(data / "pg_ident.conf", users, account)


def _write_file(path: Path, text: str, account: Account) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        account.take(descriptor)
        file.write(text)
    fresh.replace(path)


def _reports_ready(data: Path, pid: int) -> bool:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > STATUS_LINE and lines[0] == str(pid) and lines[STATUS_LINE].strip() == "ready"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
