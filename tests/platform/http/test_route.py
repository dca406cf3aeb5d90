"""The context of a route (`within`): entered before its transaction begins, left after it ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

import httpx
import pytest
from fastapi import Request, Response

from catraca.platform.database import Database
from catraca.platform.http.caller import Caller
from catraca.platform.http.request_middleware import RequestLimits
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import until
from tests.storms.idempotency import effects_of
from tests.support import effects
from tests.support.effects import EffectIn, EffectOut, make_effect
from tests.support.http import served

HASTY = RequestLimits(answer_seconds=0.5)


@dataclass
class Record:
    entered_at: list[datetime] = field(default_factory=list)
    began_at: list[datetime] = field(default_factory=list)
    # How many effects were committed when the context was left.
    left_with: list[int] = field(default_factory=list)


@pytest.fixture
async def record(database: Database) -> Record:
    await effects.create_tables(database)
    return Record()


@pytest.fixture
async def client(parts: Parts, database: Database, record: Record) -> AsyncIterator[httpx.AsyncClient]:
    router = make_router(prefix="/test", route_class=UnitOfWork)

    @asynccontextmanager
    async def watched(request: Request) -> AsyncGenerator[None]:
        label = (await request.json())["label"]
        async with database.connection() as db:
            record.entered_at.append(await db.fetchval("SELECT clock_timestamp()"))
        try:
            yield
        finally:
            record.left_with.append(len(await effects_of(database, label)))

    @router.post("/within", status_code=201)
    @within(watched)
    async def make_effect_within(body: EffectIn, db: OpenDb, caller: Caller) -> EffectOut:
        record.began_at.append(await db.fetchval("SELECT now()"))
        if body.gate is not None:
            await asyncio.Event().wait()
        return await make_effect(body, db, caller, Response())

    async with served(parts, [router], request_limits=HASTY) as server, server.client() as client:
        yield client


async def send(client: httpx.AsyncClient, **body: object) -> httpx.Response:
    return await client.post("/test/within", json=body, headers=bearer() | {"idempotency-key": "k"})


async def test_context_surrounds_the_transaction(client: httpx.AsyncClient, record: Record) -> None:
    assert (await send(client, label=str(uuid4()))).status_code == 201
    assert record.entered_at[0] < record.began_at[0], "the transaction had begun"
    assert record.left_with == [1]


async def test_context_is_left_if_the_route_refuses(client: httpx.AsyncClient, record: Record) -> None:
    assert (await send(client, label=str(uuid4()), refuse=True)).status_code == 403
    assert record.left_with == [0]


async def test_context_is_left_if_the_route_is_canceled(client: httpx.AsyncClient, record: Record) -> None:
    assert (await send(client, label=str(uuid4()), gate=1)).status_code == 503
    await until(lambda: record.left_with == [0])


async def test_repeat_runs_in_the_context(client: httpx.AsyncClient, record: Record) -> None:
    who, label = bearer(), str(uuid4())
    answers = [
        await client.post("/test/within", json={"label": label}, headers=who | {"idempotency-key": "k"})
        for _ in range(2)
    ]
    assert answers[0].content == answers[1].content
    assert record.left_with == [1, 1]
    assert len(record.began_at) == 1
