"""Schema migrations: Alembic's order and bookkeeping, hand-written SQL, one migrator at a time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine

FOLDER = Path(__file__).resolve().parents[2] / "migrations"
MIGRATION_LOCK = 0x6361_7472_6163_6101  # "catraca" and a number: the advisory lock of migrators


class SchemaUnknown(Exception):
    """The database was migrated by a version of Catraca that this one does not know."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database is at schema {revision}, which this version of Catraca does not know:"
            " run the version that made it, or a newer one"
        )


def run_sql(statements: str) -> None:
    """Run hand-written SQL, any number of statements, in the migration's transaction."""
    adapted: Any = op.get_bind().connection.dbapi_connection

    async def execute(connection: Any) -> None:
        await connection.execute(statements)

    adapted.run_async(execute)


async def migrate(url: str) -> list[str]:
    """Bring the schema to the newest revision; safe to call from many processes. Returns what was run."""
    return await _with_connection(url, _migrate)


async def schema_revision(url: str) -> str | None:
    """The revision the database is at; None before the first migration."""
    return await _with_connection(url, _current)


def newest_revision() -> str:
    head = _scripts().get_current_head()
    assert head is not None
    return head


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config


async def _with_connection(url: str, work: Callable[[Connection], Any]) -> Any:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://", 1))
    try:
        async with asyncio.timeout(600), engine.connect() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(connection: Connection) -> list[str]:
    # Held by the session, not a transaction, so that each migration commits by itself.
    connection.execute(text(f"SELECT pg_advisory_lock({MIGRATION_LOCK})"))
    connection.commit()
    scripts = _scripts()
    before = _current(connection)
    known = {script.revision for script in scripts.walk_revisions()}
    if before is not None and before not in known:
        raise SchemaUnknown(before)
    pending = [script.revision for script in scripts.iterate_revisions("head", before or "base")]
    connection.rollback()
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()
    return pending[::-1]
