"""Checks the schema late, for a process that started while the database was away."""

import asyncio
from contextlib import suppress

from catraca.platform.database.migrations import DatabaseUnreachable, check_schema
from catraca.roles.runner import Life

ASK_SECONDS = 1.0


class SchemaWatch:
    """Ends the process, by raising, if the database that came back has a schema it cannot work with."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url

    async def run(self, life: Life) -> None:
        known = False
        while not life.stopping.is_set():
            if not known:
                with suppress(DatabaseUnreachable):
                    await check_schema(self._url)
                    known = True
            with suppress(TimeoutError):
                async with asyncio.timeout(None if known else ASK_SECONDS):
                    await life.stopping.wait()
