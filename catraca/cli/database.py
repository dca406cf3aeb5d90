"""What commands share that work on the database without a running Catraca."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from catraca.platform.database import Db

T = TypeVar("T")
# More than a server allows a statement: here nobody else waits.
STATEMENT_SECONDS = 60.0


async def on_database(url: str, work: "Callable[[Db], Awaitable[T]]") -> T:
    """Do it in one transaction, on a database with the schema it needs."""
    from catraca.platform.database import Database, DatabaseLimits
    from catraca.platform.database.migrations import check_schema

    await check_schema(url)
    limits = DatabaseLimits(connections=1, statement_seconds=STATEMENT_SECONDS)
    database = await Database.open(url, limits=limits)
    try:
        return await database.run(work)
    finally:
        await database.close()
