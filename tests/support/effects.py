"""A route with one visible effect, for tests of what all routes share; also a server process to kill."""

import asyncio
from typing import Annotated
from uuid import UUID

import uvloop
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from catraca.platform.database import Database
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response
from catraca.platform.ids import new_id

router = make_router(prefix="/test", route_class=UnitOfWork)


class EffectIn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    label: Annotated[str, Field(max_length=100)]
    gate: int | None = None
    refuse: bool = False


class EffectOut(BaseModel):
    id: UUID
    label: str


async def create_tables(database: Database) -> None:
    async with database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(1)")
        await db.execute("CREATE TABLE IF NOT EXISTS test_effects (id uuid PRIMARY KEY, label text NOT NULL)")
        # A request that names a gate waits here until the test unlocks the row.
        await db.execute("CREATE TABLE IF NOT EXISTS test_gates (number int PRIMARY KEY)")


@router.post("/effects", status_code=201)
async def make_effect(body: EffectIn, db: OpenDb, caller: Caller, response: Response) -> EffectOut:
    """Each run makes another id, so equal answers prove that there was one run."""
    effect = EffectOut(id=new_id(), label=body.label)
    await db.execute("INSERT INTO test_effects (id, label) VALUES ($1, $2)", effect.id, effect.label)
    if body.gate is not None:
        await db.execute("SET LOCAL lock_timeout = 0")  # the statement's own limit still ends it
        await db.execute("SELECT FROM test_gates WHERE number = $1 FOR UPDATE", body.gate)
    if body.refuse:
        raise Forbidden
    response.headers["location"] = f"/test/effects/{effect.id}"
    return effect


@router.post("/secrets")
@stores_no_response
async def make_secret(body: EffectIn, db: OpenDb, caller: Caller) -> EffectOut:
    return EffectOut(id=new_id(), label=body.label)


async def serve() -> None:
    from catraca.platform.telemetry import configure_logging
    from catraca.roles.api import Api
    from catraca.roles.parts import open_parts
    from catraca.roles.runner import Life, run_roles
    from catraca.settings import read_settings

    configure_logging("warning")
    life = Life()
    life.handle_signals()
    async with open_parts(read_settings()) as parts:
        await run_roles([Api(parts, [router])], life)


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
