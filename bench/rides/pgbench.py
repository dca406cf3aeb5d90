"""The baseline of accepting: pgbench running the statements that one accept runs, as they are."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.rides.world import DRIVER, OFFER, PASSENGER, RIDE, make_rides, numbered_id, numbered_sql
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.acceptance.model import Attempt
from catraca.domains.rides.acceptance.service import claim_rides
from catraca.platform.database import PREFER_INDEXES, Database, Db, Row
from catraca.platform.ids import new_id

# Not too few for any machine this runs on: a run that uses them up is no measurement.
RIDES_A_SECOND = 6000
# As our own connections are set when they accept.
PLANNING = PREFER_INDEXES | {"plan_cache_mode": "force_generic_plan"}
PGBENCH = ("pgbench", "-n", "-M", "prepared", "-j", "1", "-D", "i=-1")


class Recorder:
    """Passes every statement on, and remembers it."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.statements: list[tuple[str, tuple[object, ...]]] = []

    def _note(self, query: str, args: tuple[object, ...]) -> None:
        self.statements.append((query, args))

    async def fetch(self, query: str, *args: object) -> Sequence[Row]:
        self._note(query, args)
        return await self._db.fetch(query, *args)

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        self._note(query, args)
        return await self._db.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: object) -> Any:
        self._note(query, args)
        return await self._db.fetchval(query, *args)

    async def execute(self, query: str, *args: object) -> str:
        self._note(query, args)
        return await self._db.execute(query, *args)

    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None:
        raise NotImplementedError


async def script_of_an_accept(database_url: str) -> str:
    """Accept one ride, listening, and write down what was said, with the numbers left open."""
    (number,) = await make_rides(database_url, 1)
    attempt = Attempt(
        id=new_id(),
        ride_id=RideId(numbered_id(RIDE, number)),
        driver_id=UserId(numbered_id(DRIVER, number)),
        actor_id=numbered_id(DRIVER, number),
        idempotency_key="measured",
        request_id="measured",
        user_agent="measured",
        ip_address="127.0.0.1",
    )
    database = await Database.open(database_url)
    try:
        async with database.transaction() as db:
            recorder = Recorder(db)
            await claim_rides(recorder, [attempt])
    finally:
        await database.close()
    known = {numbered_id(kind, number): kind for kind in (RIDE, OFFER, DRIVER, PASSENGER)}
    said = [_spoken(query, args, known) for query, args in recorder.statements]
    return "\n".join(["BEGIN;", *(f"{statement};" for statement in said), "COMMIT;", ""])


def _spoken(query: str, args: tuple[object, ...], known: dict[UUID, str]) -> str:
    return re.sub(r"\$(\d+)", lambda found: _literal(args[int(found[1]) - 1], known), query)


def _literal(value: object, known: dict[UUID, str]) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, UUID):
        return numbered_sql(known[value], ":n") if value in known else "gen_random_uuid()"
    if isinstance(value, list | set | tuple):
        return f"ARRAY[{', '.join(_literal(one, known) for one in value)}]"
    if isinstance(value, str):
        # A colon would be a variable of pgbench's; its own way around that is another quoting.
        return "convert_from('\\x" + value.encode().hex() + "', 'utf8')"
    raise TypeError(type(value))


def pgbench_per_second(database_url: str, *, seconds: int, connections: int, folder: Path) -> float:
    accept = asyncio.run(script_of_an_accept(database_url))
    waiting = asyncio.run(make_rides(database_url, RIDES_A_SECOND * seconds))
    each = waiting.count // connections
    # Each client has rides of its own: its number tells where they begin.
    script = folder / "accept.sql"
    script.write_text(f"\\set i :i + 1\n\\set n {waiting.first} + :client_id * {each} + :i\n{accept}")
    output = subprocess.run(
        [*PGBENCH, "-c", str(connections), "-T", str(seconds), "-f", str(script), database_url],
        env=os.environ | {"PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in PLANNING.items())},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"tps = ([\d.]+)", output)
    if found is None or "number of failed transactions: 0 " not in output:
        raise RuntimeError(output)
    return float(found[1])
