"""The baseline of accepting: pgbench runs the statements of one accept."""

import asyncio
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
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

# Enough for any machine: a run that uses all rides is not valid.
RIDES_A_SECOND = 6000
# The planner settings of the API's connections when they accept.
PLANNING = PREFER_INDEXES | {"plan_cache_mode": "force_generic_plan"}
PGBENCH = ("pgbench", "-n", "-M", "prepared", "-j", "1", "-D", "i=-1")


class Recorder:
    """Runs every statement and records it."""

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

    def after_commit(self, act: Callable[[], object]) -> None:
        self._db.after_commit(act)

    def notify(self, topic: str) -> None:
        self._db.notify(topic)


async def script_of_an_accept(database_url: str) -> str:
    """Accept one ride and return its statements as a script, with the number of the ride as variable."""
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
    statements = [_with_literals(query, args, known) for query, args in recorder.statements]
    return "\n".join(["BEGIN;", *(f"{statement};" for statement in statements), "COMMIT;", ""])


def _with_literals(query: str, args: tuple[object, ...], known: dict[UUID, str]) -> str:
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
        # pgbench takes a colon for a variable, so the text is written as hex.
        return "convert_from('\\x" + value.encode().hex() + "', 'utf8')"
    raise TypeError(type(value))


def pgbench_per_second(database_url: str, *, seconds: int, connections: int, folder: Path) -> float:
    accept = asyncio.run(script_of_an_accept(database_url))
    rides = asyncio.run(make_rides(database_url, RIDES_A_SECOND * seconds))
    each = rides.count // connections
    # Each client has rides of its own, by its number.
    script = folder / "accept.sql"
    script.write_text(f"\\set i :i + 1\n\\set n {rides.first} + :client_id * {each} + :i\n{accept}")
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
