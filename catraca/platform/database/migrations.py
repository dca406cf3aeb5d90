"""Schema migrations: ordered and recorded by Alembic, written in SQL, run by one process at a time.

Importing Alembic is slow, so it is imported only when there is something to migrate.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg

if TYPE_CHECKING:
    from sqlalchemy import Connection

FOLDER = Path(__file__).resolve().parents[3] / "migrations"
MIGRATION_LOCK = 0x6361_7472_6163_6101  # "catraca" and a number: the advisory lock of migrators
CONNECT_SECONDS = 5.0
MIGRATE_SECONDS = 600.0


class SchemaProblem(Exception):
    """This version cannot work with the database's schema. The message says what to do."""


class SchemaUnknown(SchemaProblem):
    """The database was migrated by a newer version of Catraca."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database is at schema {revision}, which this version of Catraca does not know:"
            " run the version that made it, or a newer one"
        )


class SchemaOutdated(SchemaProblem):
    """The database needs migrations of this version."""

    def __init__(self, revision: str | None, newest: str) -> None:
        found = f"at schema {revision}" if revision else "empty"
        super().__init__(f"the database is {found} and this version needs {newest}: run `catraca migrate`")


class DatabaseUnreachable(Exception):
    """Cannot connect to the database: it is down, or the address, name or password is wrong."""

    def __init__(self, url: str, error: BaseException) -> None:
        reason = str(error) or type(error).__name__
        super().__init__(
            f"cannot reach PostgreSQL at {_place(url)} ({reason}): start it, or correct CATRACA_DATABASE_URL"
        )


def run_sql(statements: str) -> None:
    """Run hand-written SQL, any number of statements, in the migration's transaction."""
    from alembic import op

    bind = op.get_bind()
    # SQLAlchemy begins the transaction at its first statement; ours bypasses it and goes to the driver.
    bind.exec_driver_sql("SELECT")
    adapted: Any = bind.connection.dbapi_connection

    async def execute(connection: Any) -> None:
        await connection.execute(statements)

    adapted.run_async(execute)


async def migrate(url: str) -> list[str]:
    """Migrate to the newest revision; safe to call from many processes. Returns the revisions it ran."""
    revision = await schema_revision(url)
    _ensure_known(revision)
    return [] if revision == newest_revision() else await _with_alembic(url, _migrate)


async def check_schema(url: str) -> None:
    """Raise a SchemaProblem unless the database is at the newest revision."""
    revision = await schema_revision(url)
    _ensure_known(revision)
    if revision != newest_revision():
        raise SchemaOutdated(revision, newest_revision())


async def schema_revision(url: str) -> str | None:
    """The database's revision; None before the first migration."""
    try:
        connection: Any = await cast(Any, asyncpg).connect(url, timeout=CONNECT_SECONDS)
        try:
            return await connection.fetchval(
                "SELECT version_num FROM alembic_version", timeout=CONNECT_SECONDS
            )
        except asyncpg.UndefinedTableError:
            return None
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseUnreachable(url, error) from error


def newest_revision() -> str:
    """The revision after `catraca migrate`."""
    return known_revisions()[-1]


def known_revisions() -> list[str]:
    """Every revision, oldest first: the numbers at the start of the file names."""
    return sorted(path.name[:4] for path in (FOLDER / "versions").glob("[0-9][0-9][0-9][0-9]_*.py"))


def _ensure_known(revision: str | None) -> None:
    if revision is not None and revision not in known_revisions():
        raise SchemaUnknown(revision)


async def _with_alembic(url: str, work: "Callable[[Connection], Any]") -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    async def connect() -> Any:
        # With asyncpg, so that the URL has the same meaning as everywhere else.
        return await cast(Any, asyncpg).connect(url, timeout=CONNECT_SECONDS)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with asyncio.timeout(MIGRATE_SECONDS), engine.connect() as connection:
            return await connection.run_sync(work)
    except TimeoutError as error:
        raise SchemaProblem(
            f"migrating took over {MIGRATE_SECONDS:.0f} s and was rolled back: look for locks there "
            "(another `catraca migrate`, a long transaction) and try again"
        ) from error


def _migrate(connection: "Connection") -> list[str]:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy import text

    # A lock of the session, not of a transaction: each migration commits by itself.
    connection.execute(text(f"SELECT pg_advisory_lock({MIGRATION_LOCK})"))
    connection.commit()
    # A process of another version may have migrated before us.
    before = MigrationContext.configure(connection).get_current_revision()
    connection.rollback()
    _ensure_known(before)
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return [revision for revision in known_revisions() if before is None or revision > before]


def _place(url: str) -> str:
    """The server's address, without the password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or parse_qs(parts.query).get("host", ["the default socket"])[0]
        return re.sub(r"[^\x21-\x7e]", "?", f"{host}:{parts.port}" if parts.port else host)
    except ValueError:
        return "an address that cannot be read"
