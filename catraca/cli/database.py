"""The settings and the database of commands that run beside a server, or without one."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from catraca.platform.database import Db
    from catraca.settings import Settings

T = TypeVar("T")
# More than a server allows a statement: a command keeps no request waiting.
STATEMENT_SECONDS = 60.0


def find_settings() -> "Settings":
    """Settings of the environment; missing addresses are those of a `catraca up` in the state folder."""
    from catraca.platform.embedded.running_servers import find_running
    from catraca.settings import read_settings

    settings = read_settings()
    if settings.servers.database_url is not None:
        return settings
    running = find_running(settings.process.state_dir)
    return settings.changed(
        database_url=running.database_url,
        redis_url=settings.servers.redis_url or running.redis_url,
    )


def need_database(settings: "Settings") -> str:
    """The database's address; without one the command fails and names two remedies."""
    from catraca.cli.failures import REFUSED, fail

    folder = settings.process.state_dir
    return settings.servers.database_url or fail(
        f"no database: give CATRACA_DATABASE_URL, or run `catraca up` (none runs in {folder})", REFUSED
    )


def run_on_database(work: "Callable[[Db], Awaitable[T]]") -> T:
    """Run `work` in one transaction on the configured database, with a quiet log."""
    import asyncio

    from catraca.platform.telemetry import configure_logging

    configure_logging("error")  # standard output is for the result
    return asyncio.run(on_database(need_database(find_settings()), work))


async def on_database(url: str, work: "Callable[[Db], Awaitable[T]]") -> T:
    """Run `work` in one transaction; fails if the schema is not the one this version needs."""
    from catraca.platform.database import Database, DatabaseLimits
    from catraca.platform.database.migrations import check_schema

    await check_schema(url)
    limits = DatabaseLimits(connections=1, statement_seconds=STATEMENT_SECONDS)
    database = await Database.open(url, limits=limits)
    try:
        return await database.run(work)
    finally:
        await database.close()
