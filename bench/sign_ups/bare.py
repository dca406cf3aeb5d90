"""The baseline: receive and insert, without checks, events or retries."""

import asyncio
import json
from time import perf_counter
from uuid import UUID, uuid4

import aio_pika
import asyncpg

from bench.sign_ups.world import sign_up_message

BATCH_ROWS = 1000
ACK_MESSAGES = 500
PREFETCH = 2000
POOL = 16
IN_FLIGHT = 256


async def postgres_per_second(database_url: str, *, count: int) -> float:
    """Delete batches from a queue table and insert them into `users`, one transaction each."""
    tag = uuid4().hex[:12]
    db = await asyncpg.connect(database_url)
    await db.execute(
        f"CREATE TABLE bare_queue_{tag} (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, body bytea)"
    )
    try:
        await db.copy_records_to_table(
            f"bare_queue_{tag}",
            records=[(sign_up_message().body,) for _ in range(count)],
            columns=["body"],
        )
        began, left = perf_counter(), count
        while left:
            async with db.transaction():
                rows = await db.fetch(
                    f"DELETE FROM bare_queue_{tag} WHERE id = ANY (ARRAY("
                    f"   SELECT id FROM bare_queue_{tag} ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))"
                    " RETURNING body",
                    BATCH_ROWS,
                )
                people = [json.loads(row["body"]) for row in rows]
                await db.execute(_insert("users"), *_columns(people))
            left -= len(rows)
        return count / (perf_counter() - began)
    finally:
        await db.execute(f"DROP TABLE bare_queue_{tag}")
        await db.close()


def _insert(table: str) -> str:
    return (
        f"INSERT INTO {table} (id, roles, name, email, email_folded)"
        " SELECT id, ARRAY['passenger'], name, email, lower(email)"
        " FROM unnest($1::uuid[], $2::text[], $3::text[]) AS p (id, name, email) ON CONFLICT DO NOTHING"
    )


def _columns(people: list[dict[str, str]]) -> list[list[object]]:
    return [[UUID(p["id"]) for p in people], [p["name"] for p in people], [p["email"] for p in people]]


async def rabbitmq_per_second(amqp_url: str, *, count: int) -> float:
    """Receive with aio-pika, drop the messages, acknowledge in bulk."""
    taken, done = 0, asyncio.Event()

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        nonlocal taken
        taken += 1
        if taken % ACK_MESSAGES == 0 or taken == count:
            await message.ack(multiple=True)
        if taken == count:
            done.set()

    return await _consumed(amqp_url, take, done, count=count, prefetch=PREFETCH)


async def one_by_one_per_second(database_url: str, amqp_url: str, *, count: int) -> float:
    """One insert and one acknowledgement per message, 16 at a time."""
    tag = uuid4().hex[:12]
    taken, done = 0, asyncio.Event()
    async with asyncpg.create_pool(database_url, min_size=POOL, max_size=POOL) as pool:
        await pool.execute(f"CREATE TABLE bare_users_{tag} (LIKE users INCLUDING ALL)")

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            nonlocal taken
            await pool.execute(_insert(f"bare_users_{tag}"), *_columns([json.loads(message.body)]))
            await message.ack()
            taken += 1
            if taken == count:
                done.set()

        try:
            return await _consumed(amqp_url, take, done, count=count, prefetch=4 * POOL)
        finally:
            await pool.execute(f"DROP TABLE bare_users_{tag}")


async def _consumed(amqp_url: str, take, done: asyncio.Event, *, count: int, prefetch: int) -> float:
    """Consume from a quorum queue that is full at the start."""
    connection = await aio_pika.connect(amqp_url)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=prefetch)
    queue = await channel.declare_queue(
        f"bare_{uuid4().hex[:12]}", durable=True, arguments={"x-queue-type": "quorum"}
    )
    room = asyncio.Semaphore(IN_FLIGHT)

    async def publish_one() -> None:
        async with room:
            sign_up = sign_up_message()
            message = aio_pika.Message(sign_up.body, delivery_mode=2, message_id=str(sign_up.id))
            await channel.default_exchange.publish(message, queue.name)

    try:
        await asyncio.gather(*(publish_one() for _ in range(count)))
        began = perf_counter()
        await queue.consume(take)
        await done.wait()
        return count / (perf_counter() - began)
    finally:
        await queue.delete(if_unused=False, if_empty=False)
        await connection.close()
