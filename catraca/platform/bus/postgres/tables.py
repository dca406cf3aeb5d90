"""The statements of the PostgreSQL bus. A message is a row; a consumer holds it while its lease runs."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from catraca.platform.bus.message import Delivery, Headers, Message
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db, Row

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Headers).decode
MOVED_AT_ONCE = 1000


async def insert_messages(db: Db, copies: Sequence[tuple[str, Message]]) -> None:
    """Put each message into its queue, in the given order."""
    await db.execute(
        "INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
        " SELECT queue, id, exchange, key, headers, body"
        " FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::json[], $6::bytea[])"
        "   WITH ORDINALITY AS copy (queue, id, exchange, key, headers, body, place)"
        " ORDER BY place",
        *_columns(copies),
    )


async def move_from_outbox(db: Db, ids: Sequence[UUID], routes: Sequence[tuple[str, str, str]]) -> None:
    """Mark these events as sent and insert a copy into each queue; `routes` are (exchange, key, queue).

    An event for one queue only goes there, whatever its key.
    """
    await db.execute(
        "WITH sent AS ("
        "   DELETE FROM outbox WHERE id = ANY ($1::uuid[])"
        "   RETURNING id, position, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "     queue, message_id),"
        " kept AS ("
        "   INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "     queue, message_id)"
        "   SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at, queue, message_id"
        "   FROM sent)"
        " INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
        " SELECT coalesce(s.queue, r.queue), coalesce(s.message_id, s.id), s.exchange, s.routing_key,"
        "   s.headers, convert_to(s.body::text, 'UTF8')"
        " FROM sent s LEFT JOIN unnest($2::text[], $3::text[], $4::text[]) AS r (exchange, key, queue)"
        "   ON s.queue IS NULL AND r.exchange = s.exchange AND r.key = s.routing_key"
        " ORDER BY s.position",
        ids,
        *([route[part] for route in routes] for part in range(3)),
    )


async def insert_transient(
    db: Db, copies: Sequence[tuple[str, Message]], *, seconds: Sequence[float]
) -> None:
    """Insert each message with an expiry; delete expired messages."""
    await db.execute(
        "DELETE FROM bus_transient WHERE (queue, id) IN ("
        "   SELECT queue, id FROM bus_transient WHERE queue = ANY ($1::text[])"
        "     AND stale_at <= clock_timestamp() LIMIT $2 FOR UPDATE SKIP LOCKED)",
        sorted({queue for queue, _ in copies}),
        MOVED_AT_ONCE,
    )
    await db.execute(
        "INSERT INTO bus_transient (queue, message_id, exchange, routing_key, headers, body, stale_at)"
        " SELECT queue, id, exchange, key, headers, body, clock_timestamp() + make_interval(secs => seconds)"
        " FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::json[], $6::bytea[], $7::float8[])"
        "   AS copy (queue, id, exchange, key, headers, body, seconds)",
        *_columns(copies),
        list(seconds),
    )


def _columns(copies: Sequence[tuple[str, Message]]) -> list[list[object]]:
    return [
        [queue for queue, _ in copies],
        [message.id for _, message in copies],
        [message.exchange for _, message in copies],
        [message.key for _, message in copies],
        [_encode(message.headers).decode() for _, message in copies],
        [message.body for _, message in copies],
    ]


async def claim_messages(
    db: Db, queue: str, *, lease: UUID, lease_seconds: float, limit: int
) -> list[tuple[Delivery, int]]:
    """Lease the oldest free messages; returns each with its number of deliveries."""
    rows = await db.fetch(
        "UPDATE bus_messages SET lease = $2, leased_until = clock_timestamp() + $3,"
        "   deliveries = deliveries + 1"
        " WHERE queue = $1 AND id = ANY (ARRAY("
        "   SELECT id FROM bus_messages WHERE queue = $1 AND leased_until <= clock_timestamp()"
        "   ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED))"
        " RETURNING id, message_id, exchange, routing_key, headers, body, deliveries",
        queue,
        lease,
        timedelta(seconds=lease_seconds),
        limit,
    )
    return _claimed(queue, rows)


async def claim_in_order(
    db: Db, queue: str, in_hand: Iterable[int], *, lease: UUID, lease_seconds: float, limit: int
) -> list[tuple[Delivery, int]]:
    """For the active consumer: lease the oldest messages that it does not hold, from any other lease too.

    Waits for the transaction of an earlier consumer instead of skipping its rows.
    """
    rows = await db.fetch(
        "UPDATE bus_messages SET lease = $2, leased_until = clock_timestamp() + $3,"
        "   deliveries = deliveries + 1"
        " WHERE queue = $1 AND id = ANY (ARRAY("
        "   SELECT id FROM bus_messages WHERE queue = $1 AND id <> ALL ($5::bigint[])"
        "   ORDER BY id LIMIT $4 FOR UPDATE))"
        " RETURNING id, message_id, exchange, routing_key, headers, body, deliveries",
        queue,
        lease,
        timedelta(seconds=lease_seconds),
        limit,
        list(in_hand),
    )
    return _claimed(queue, rows)


def _claimed(queue: str, rows: Sequence[Row]) -> list[tuple[Delivery, int]]:
    return [(_delivery(queue, row), row["deliveries"]) for row in sorted(rows, key=lambda row: row["id"])]


async def take_transient(db: Db, queue: str, *, limit: int) -> list[Delivery]:
    """Delete and return the oldest messages that have not expired."""
    asked_at = monotonic_seconds()  # before the query: a message may expire too early, never too late
    rows = await db.fetch(
        "WITH taken AS ("
        "   DELETE FROM bus_transient WHERE queue = $1 AND id = ANY (ARRAY("
        "     SELECT id FROM bus_transient WHERE queue = $1 AND stale_at > clock_timestamp()"
        "     ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))"
        "   RETURNING id, message_id, exchange, routing_key, headers, body, stale_at)"
        " SELECT *, extract(epoch FROM stale_at - clock_timestamp())::float8 AS seconds_left"
        " FROM taken ORDER BY id",
        queue,
        limit,
    )
    deliveries = [_delivery(queue, row) for row in rows]
    for delivery, row in zip(deliveries, rows, strict=True):
        delivery.stale_at = asked_at + row["seconds_left"]
    return deliveries


def _delivery(queue: str, row: Row) -> Delivery:
    message = Message(
        id=row["message_id"],
        exchange=row["exchange"],
        key=row["routing_key"],
        body=row["body"],
        headers=_decode(row["headers"]),
    )
    return Delivery(queue=queue, message=message, tag=row["id"])


# With `alone` the lease counts only while its holder is the queue's active consumer.
_OURS = (
    "DELETE FROM bus_messages WHERE queue = $1 AND id = ANY ($2::bigint[]) AND lease = $3"
    " AND (NOT $4 OR EXISTS (SELECT FROM bus_active WHERE queue = $1 AND lease = $3))"
)


async def remove_messages(db: Db, queue: str, ids: Iterable[int], *, lease: UUID, alone: bool) -> set[int]:
    """Remove the messages that are still under this lease; returns their ids."""
    removed = await db.fetchval(
        "WITH ours AS (" + _OURS + " RETURNING id) SELECT array_agg(id) FROM ours",  # noqa: S608 - a constant
        queue,
        list(ids),
        lease,
        alone,
    )
    return set(removed or ())


async def remember_messages(db: Db, queue: str, ids: Iterable[int], *, lease: UUID, alone: bool) -> set[UUID]:
    """Move messages under this lease from the queue to the inbox; returns those that are new there."""
    rows = await db.fetch(
        "WITH ours AS (" + _OURS + " RETURNING message_id)"  # noqa: S608 - a constant
        " INSERT INTO inbox (consumer, event_id) SELECT DISTINCT $1, message_id FROM ours ORDER BY message_id"
        " ON CONFLICT DO NOTHING RETURNING event_id",
        queue,
        list(ids),
        lease,
        alone,
    )
    return {row["event_id"] for row in rows}


async def delay_message(db: Db, delivery: Delivery, message: Message, *, lease: UUID, seconds: float) -> None:
    """Move the message to the delayed ones, if it is still under this lease."""
    await db.execute(
        "WITH ours AS ("
        "   DELETE FROM bus_messages WHERE queue = $1 AND id = $2 AND lease = $3"
        "   RETURNING queue, message_id, exchange, routing_key, body)"
        " INSERT INTO bus_delayed (due_at, queue, message_id, exchange, routing_key, headers, body)"
        " SELECT clock_timestamp() + make_interval(secs => $5), queue, message_id, exchange, routing_key,"
        "        $4::json, body FROM ours",
        delivery.queue,
        delivery.tag,
        lease,
        _encode(message.headers).decode(),
        seconds,
    )


async def move_message(
    db: Db, delivery: Delivery, message: Message, queues: Sequence[str], *, lease: UUID
) -> None:
    """Move the message to other queues as a dead letter, if it is still under this lease."""
    await db.execute(
        "WITH ours AS ("
        "   DELETE FROM bus_messages WHERE queue = $1 AND id = $2 AND lease = $3"
        "   RETURNING message_id, exchange, routing_key, body)"
        " INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
        " SELECT other, message_id, exchange, routing_key, $5::json, body"
        " FROM ours CROSS JOIN unnest($4::text[]) AS other",
        delivery.queue,
        delivery.tag,
        lease,
        list(queues),
        _encode(message.headers).decode(),
    )


async def return_due(db: Db) -> list[str]:
    """Move due messages back to their queues; returns the names of these queues."""
    rows = await db.fetch(
        "WITH due AS ("
        "   DELETE FROM bus_delayed WHERE id = ANY (ARRAY("
        "     SELECT id FROM bus_delayed WHERE due_at <= (SELECT clock_timestamp())"
        "     ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED))"
        "   RETURNING *)"
        " INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
        " SELECT queue, message_id, exchange, routing_key, headers, body FROM due ORDER BY due_at, id"
        " RETURNING queue",
        MOVED_AT_ONCE,
    )
    return sorted({row["queue"] for row in rows})


async def renew(db: Db, queue: str, ids: Iterable[int], *, lease: UUID, lease_seconds: float) -> None:
    """Extend the leases. Rows locked by a transaction are skipped: their lock protects them."""
    await db.execute(
        "UPDATE bus_messages SET leased_until = clock_timestamp() + $4 WHERE queue = $1 AND id = ANY (ARRAY("
        "   SELECT id FROM bus_messages WHERE queue = $1 AND id = ANY ($2::bigint[]) AND lease = $3"
        "   FOR UPDATE SKIP LOCKED))",
        queue,
        list(ids),
        lease,
        timedelta(seconds=lease_seconds),
    )


async def release(db: Db, queue: str, ids: Iterable[int], *, lease: UUID) -> None:
    """Give these back; this does not count as a delivery."""
    await db.execute(
        "UPDATE bus_messages SET lease = NULL, leased_until = '-infinity', deliveries = deliveries - 1"
        " WHERE queue = $1 AND id = ANY ($2::bigint[]) AND lease = $3",
        queue,
        list(ids),
        lease,
    )


async def become_active(db: Db, queue: str, *, lease: UUID, fresh: UUID, lease_seconds: float) -> UUID | None:
    """Stay the active consumer under this lease, or become it under a fresh one; None if another is active.

    A former active consumer gets a fresh lease too: its old deliveries may have been applied since.
    """
    return await db.fetchval(
        "INSERT INTO bus_active AS a (queue, lease, leased_until) VALUES ($1, $3, clock_timestamp() + $4)"
        " ON CONFLICT (queue) DO UPDATE SET leased_until = EXCLUDED.leased_until,"
        "   lease = CASE a.lease WHEN $2 THEN a.lease ELSE EXCLUDED.lease END"
        "   WHERE a.lease = $2 OR a.leased_until <= clock_timestamp()"
        " RETURNING lease",
        queue,
        lease,
        fresh,
        timedelta(seconds=lease_seconds),
    )


async def step_down(db: Db, queue: str, *, lease: UUID) -> None:
    await db.execute("DELETE FROM bus_active WHERE queue = $1 AND lease = $2", queue, lease)


async def count_messages(db: Db, queues: Sequence[str], *, at_most: Sequence[int]) -> dict[str, int]:
    """The number of messages in each queue, counted up to `at_most`."""
    rows = await db.fetch(
        "SELECT name, (SELECT count(*) FROM ("
        "   SELECT FROM bus_messages WHERE queue = name LIMIT most) AS few) AS depth"
        " FROM unnest($1::text[], $2::bigint[]) AS q (name, most)",
        list(queues),
        list(at_most),
    )
    return {row["name"]: row["depth"] for row in rows}


async def count_delayed(db: Db, queues: Sequence[str], *, at_most: int) -> dict[str, int]:
    """The number of delayed messages of each queue, counted up to `at_most` in all."""
    rows = await db.fetch(
        "SELECT name, count(d.queue) AS depth FROM unnest($1::text[]) AS q (name)"
        " LEFT JOIN (SELECT queue FROM bus_delayed LIMIT $2) AS d ON d.queue = name GROUP BY name",
        list(queues),
        at_most,
    )
    return {row["name"]: row["depth"] for row in rows}
