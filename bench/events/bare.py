"""The same path without guarantees: no outbox, no inbox, no retries; only publish and consume."""

import asyncio
from time import perf_counter
from uuid import uuid4

import aio_pika
import asyncpg

BODY = b'{"event_type":"bench.measured","note":"' + b"x" * 220 + b'"}'
IN_FLIGHT = 256
PUBLISHED_AT_ONCE = 500
TAKEN_AT_ONCE = 100


async def postgres_per_second(database_url: str, *, count: int) -> float:
    """Rows into a queue table in batches; claimed with a lease and deleted, in batches."""
    table = f"bare_{uuid4().hex[:12]}"
    publisher, consumer = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await publisher.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, message_id uuid,"
        " body bytea, lease uuid, leased_until timestamptz NOT NULL DEFAULT '-infinity')"
    )

    async def publish() -> None:
        for start in range(0, count, PUBLISHED_AT_ONCE):
            size = min(PUBLISHED_AT_ONCE, count - start)
            await publisher.execute(
                f"INSERT INTO {table} (message_id, body) SELECT * FROM unnest($1::uuid[], $2::bytea[])",
                [uuid4() for _ in range(size)],
                [BODY] * size,
            )

    async def consume() -> None:
        lease, left = uuid4(), count
        while left:
            rows = await consumer.fetch(
                f"UPDATE {table} SET lease = $1, leased_until = clock_timestamp() + interval '5 s'"
                f" WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE leased_until <= clock_timestamp()"
                "   ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING id, message_id, body",
                lease,
                TAKEN_AT_ONCE,
            )
            if not rows:
                await asyncio.sleep(0)
                continue
            await consumer.execute(
                f"DELETE FROM {table} WHERE id = ANY ($1::bigint[]) AND lease = $2",
                [row["id"] for row in rows],
                lease,
            )
            left -= len(rows)

    try:
        return await _timed(count, publish(), consume())
    finally:
        await publisher.execute(f"DROP TABLE {table}")
        await publisher.close()
        await consumer.close()


async def rabbitmq_per_second(amqp_url: str, *, count: int) -> float:
    """Published with confirms, many in flight, to a quorum queue; consumed, acknowledged in bulk."""
    sending, taking = await aio_pika.connect(amqp_url), await aio_pika.connect(amqp_url)
    out, into = await sending.channel(), await taking.channel()
    await into.set_qos(prefetch_count=4 * TAKEN_AT_ONCE)
    queue = await into.declare_queue(
        f"bare_{uuid4().hex[:12]}", durable=True, arguments={"x-queue-type": "quorum"}
    )
    room = asyncio.Semaphore(IN_FLIGHT)
    done = asyncio.Event()
    taken = 0

    async def publish_one() -> None:
        async with room:
            message = aio_pika.Message(BODY, delivery_mode=2, message_id=str(uuid4()))
            await out.default_exchange.publish(message, queue.name)

    async def publish() -> None:
        await asyncio.gather(*(publish_one() for _ in range(count)))

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        nonlocal taken
        taken += 1
        if taken % TAKEN_AT_ONCE == 0 or taken == count:
            await message.ack(multiple=True)
        if taken == count:
            done.set()

    async def consume() -> None:
        await queue.consume(take)
        await done.wait()

    try:
        return await _timed(count, publish(), consume())
    finally:
        await queue.delete(if_unused=False, if_empty=False)
        await sending.close()
        await taking.close()


async def _timed(count: int, *works) -> float:
    began = perf_counter()
    await asyncio.gather(*works)
    return count / (perf_counter() - began)
