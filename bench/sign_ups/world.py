"""A queue filled with sign-ups, and the parts that consume it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

import asyncpg

from catraca.domains.onboarding.model import Seal, encode_sign_up
from catraca.domains.onboarding.service import make_sign_up
from catraca.events import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, SignUpFlow, make_topology
from catraca.platform.bus import Headers, Message, Topology, Transport
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import PREFER_INDEXES, Database

LIMIT_SECONDS = 120
ADDED_AT_ONCE = 50_000
PUBLISHED_AT_ONCE = 1000
SEAL = Seal("a secret for measurements only")


@dataclass(slots=True)
class World:
    database: Database
    transport: Transport
    topology: Topology


@asynccontextmanager
async def open_world(database_url: str, amqp_url: str | None) -> AsyncGenerator[World]:
    whole = make_topology(SignUpFlow())
    names = (SIGN_UP_QUEUE, "raffle_dlq")
    topology = replace(whole, queues=tuple(whole.queue(name) for name in names))
    database = await Database.open(database_url, planning=PREFER_INDEXES)
    transport: Transport
    if amqp_url is None:
        transport = PostgresBus(database, topology)
    else:
        from catraca.platform.bus.rabbitmq import RabbitMqBus

        transport = RabbitMqBus(amqp_url, topology)
    try:
        await transport.declare()
        yield World(database, transport, topology)
    finally:
        await transport.close()
        await database.close()


def sign_up_message() -> Message:
    tag = uuid4().hex
    sign_up = make_sign_up(
        SEAL,
        name=f"Pessoa {tag[:12]}",
        email=f"{tag}@example.com",
        language="pt-BR",
        idempotency_key=tag,
    )
    return Message(
        id=sign_up.request_id,
        exchange=SIGN_UP_EXCHANGE,
        key=SIGN_UP_QUEUE,
        body=encode_sign_up(sign_up),
        headers=Headers(aggregate_id=sign_up.id),
    )


async def fill(transport: Transport, count: int) -> None:
    """Publish this many sign-ups."""
    for start in range(0, count, PUBLISHED_AT_ONCE):
        size = min(PUBLISHED_AT_ONCE, count - start)
        outcomes = await transport.publish([sign_up_message() for _ in range(size)])
        assert outcomes == [None] * size, set(map(repr, outcomes))


async def add_users(database_url: str, count: int) -> None:
    """Insert this many users, with rows in every table that a sign-up writes."""
    db = await asyncpg.connect(database_url)
    await db.execute("SET synchronous_commit = off")
    for start in range(0, count, ADDED_AT_ONCE):
        await db.execute(
            "WITH s AS (SELECT gen_random_uuid() AS id FROM generate_series(1, $1)),"
            " u AS (INSERT INTO users (id, roles, name, email, email_folded)"
            "   SELECT id, ARRAY['passenger'], 'Pessoa', id || '@example.net', id || '@example.net' FROM s),"
            " n AS (INSERT INTO sign_ups (id, request_id) SELECT id, gen_random_uuid() FROM s)"
            " INSERT INTO outbox_heads (aggregate_id, seq) SELECT id, 1 FROM s",
            min(ADDED_AT_ONCE, count - start),
        )
    await db.execute("VACUUM ANALYZE")
    await db.execute("CHECKPOINT")
    await db.close()
