"""Checks the schema of a database that was unavailable when the process started."""

import asyncio
from contextlib import suppress

from catraca.platform.database.migrations import DatabaseUnreachable, check_schema
from catraca.roles.runner import Life

CHECK_SECONDS = 1.0


class SchemaWatch:
    """Ends the process, by raising, if the database comes back with a schema it cannot work with."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url

    async def run(self, life: Life) -> None:
        is_checked = False
        while not life.stopping.is_set():
            if not is_checked:
                with suppress(DatabaseUnreachable):
                    await check_schema(self._url)
                    is_checked = True
            with suppress(TimeoutError):
                async with asyncio.timeout(None if is_checked else CHECK_SECONDS):
                    await life.stopping.wait()
