"""The outbox: an event is a row, inserted in the transaction of its change. The relay sends it.

Rows of one aggregate are sent in the order of their `seq`. A relay claims rows for a while (a lease) and
moves them to `outbox_sent` if it still has the lease. A relay that dies or loses its lease causes repeats,
which consumers ignore.

A row with a `queue` is a replay: a dead letter, sent again to that queue only, with its own `message_id`. It
has an aggregate of its own. It may be scheduled: `created_at` is then the time from which it is sent.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from uuid import UUID

import msgspec
import structlog

from catraca.platform.bus.message import Headers, Message
from catraca.platform.database import Db, Row
from catraca.platform.database.retention import prune_rows
from catraca.platform.erasure import rounded_places
from catraca.platform.event import Event, encode, key_of
from catraca.platform.ids import new_ids

WAKE_TOPIC = "outbox"
FIRST_AGGREGATE = UUID(int=0)
_headers = msgspec.json.Encoder()
_read_headers = msgspec.json.Decoder(Headers)


async def record(db: Db, *events: Event) -> None:
    """Insert events in the transaction of their change: they are sent if and only if it commits."""
    trace = current_trace()
    await record_traced(db, [(event, trace) for event in events])


async def record_traced(db: Db, traced: Sequence[tuple[Event, str | None]]) -> None:
    """The same for events of several causes, each with the request that caused it."""
    if not traced:
        return
    events = [event for event, _ in traced]
    await db.execute(
        "WITH news AS ("
        "   SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::json[])"
        "     WITH ORDINALITY AS n (id, aggregate_id, exchange, routing_key, headers, body, place)),"
        # In the order of ids, so that two writers of the same aggregates cannot deadlock.
        " heads AS ("
        "   INSERT INTO outbox_heads AS h (aggregate_id, seq)"
        "   SELECT aggregate_id, count(*) FROM news GROUP BY aggregate_id ORDER BY aggregate_id"
        "   ON CONFLICT (aggregate_id) DO UPDATE SET seq = h.seq + EXCLUDED.seq"
        "   RETURNING aggregate_id, seq),"
        " numbered AS ("
        "   SELECT n.*, h.seq - count(*) OVER (PARTITION BY n.aggregate_id)"
        "     + row_number() OVER (PARTITION BY n.aggregate_id ORDER BY n.place) AS seq"
        "   FROM news n JOIN heads h USING (aggregate_id))"
        " INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body)"
        # The number goes into the headers too, before their closing brace.
        " SELECT id, aggregate_id, seq, exchange, routing_key,"
        "        (left(headers, -1) || ',\"seq\":' || seq || '}')::json, body"
        " FROM numbered ORDER BY place",
        new_ids(len(events)),
        [event.aggregate_id for event in events],
        [event.exchange for event in events],
        [key_of(type(event)) for event in events],
        [_headers_of(event, trace) for event, trace in traced],
        [encode(event).decode() for event in events],
    )
    db.notify(WAKE_TOPIC)


def current_trace() -> str | None:
    """The id of the request, message or timer that is being handled."""
    trace = structlog.contextvars.get_contextvars().get("request_id")
    return trace if isinstance(trace, str) else None


def caused_by(trace: str | None) -> AbstractContextManager[object]:
    """Within this block, events and log lines have this trace."""
    return structlog.contextvars.bound_contextvars(request_id=trace)


def _headers_of(event: Event, trace: str | None) -> str:
    headers = Headers(
        aggregate_id=event.aggregate_id,
        round=getattr(event, "round", None),
        version=event.version,
        trace=trace,
    )
    return _headers.encode(headers).decode()


# Relays lock only the earliest event of an aggregate: its holder has the later ones too, so no relay sends a
# later event while another one holds an earlier one. The recursion steps from aggregate to aggregate and
# stops when it has enough: an aggregate that must wait costs one step, however many events it has.
_WANTED = (
    "WITH RECURSIVE firsts AS ("
    "   (SELECT aggregate_id, id, leased_until FROM outbox WHERE aggregate_id >= $2"
    "    ORDER BY aggregate_id, seq LIMIT 1)"
    "   UNION ALL"
    "   SELECT next.* FROM firsts CROSS JOIN LATERAL ("
    "     SELECT o.aggregate_id, o.id, o.leased_until FROM outbox o"
    "     WHERE o.aggregate_id > firsts.aggregate_id ORDER BY o.aggregate_id, o.seq LIMIT 1) AS next),"
    # Checked again when it is locked: another relay may have claimed or sent it.
    " ours AS MATERIALIZED ("
    "   SELECT locked.aggregate_id, locked.seq FROM firsts CROSS JOIN LATERAL ("
    "     SELECT aggregate_id, seq FROM outbox WHERE id = firsts.id AND leased_until <= clock_timestamp()"
    "     FOR UPDATE SKIP LOCKED) AS locked"
    "   WHERE firsts.leased_until <= clock_timestamp() LIMIT $1),"
    " wanted AS MATERIALIZED ("
    "   SELECT run.* FROM ours CROSS JOIN LATERAL ("
    "     SELECT id, aggregate_id, seq, exchange, routing_key, queue, created_at, failures"
    # Numbers have no gaps, so this bound changes nothing but the plan: no sort of all rows.
    "     FROM outbox WHERE aggregate_id = ours.aggregate_id AND seq < ours.seq + $1"
    "     ORDER BY seq LIMIT $1) AS run LIMIT $1)"
)


async def claim_unsent(
    db: Db, *, lease: UUID, lease_seconds: float, limit: int, start: UUID = FIRST_AGGREGATE
) -> Sequence[Row]:
    """Claim events for one relay, from aggregate `start` on, ordered by aggregate and `seq`."""
    rows = await db.fetch(
        _WANTED  # noqa: S608 - our own words
        + " UPDATE outbox SET lease = $3, leased_until = clock_timestamp() + $4"
        " WHERE id = ANY (ARRAY(SELECT id FROM wanted))"
        " RETURNING id, aggregate_id, seq, exchange, routing_key, headers, body, created_at, failures,"
        "   queue, message_id",
        limit,
        start,
        lease,
        timedelta(seconds=lease_seconds),
    )
    return sorted(rows, key=lambda row: (row["aggregate_id"], row["seq"]))


async def lock_unsent(db: Db, *, limit: int, start: UUID = FIRST_AGGREGATE) -> Sequence[Row]:
    """The same, claimed by row locks instead of a lease, and without headers and bodies."""
    return await db.fetch(
        _WANTED + " SELECT * FROM wanted ORDER BY aggregate_id, seq",  # noqa: S608 - our own words
        limit,
        start,
    )


def message_of(row: Row) -> Message:
    return Message(
        id=row["message_id"] or row["id"],
        exchange=row["exchange"],
        key=row["routing_key"],
        body=row["body"].encode(),
        headers=_read_headers.decode(row["headers"]),
        queue=row["queue"],
    )


async def mark_sent(db: Db, ids: Iterable[UUID], *, lease: UUID) -> int:
    """Move confirmed events to `outbox_sent` if we still have the lease; returns their number."""
    return await db.fetchval(
        "WITH sent AS ("
        "   DELETE FROM outbox WHERE id = ANY ($1::uuid[]) AND lease = $2"
        "   RETURNING id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "     queue, message_id),"
        " kept AS ("
        "   INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "     queue, message_id)"
        "   SELECT * FROM sent)"
        " SELECT count(*) FROM sent",
        list(ids),
        lease,
    )


async def postpone(
    db: Db, ids: Sequence[UUID], delays_seconds: Sequence[float], *, lease: UUID | None
) -> None:
    """Retry these events after their delays; later events of their aggregates wait for them.

    Without a lease, the caller must hold the row locks of `lock_unsent`.
    """
    await db.execute(
        "UPDATE outbox o SET lease = NULL, failures = o.failures + 1,"
        "   leased_until = clock_timestamp() + make_interval(secs => late.seconds)"
        " FROM unnest($1::uuid[], $2::float8[]) AS late (id, seconds)"
        " WHERE o.id = late.id AND ($3::uuid IS NULL OR o.lease = $3)",
        list(ids),
        list(delays_seconds),
        lease,
    )


async def release(db: Db, ids: Iterable[UUID], *, lease: UUID) -> None:
    """Release the claim on these events if we still have it, so that another relay can claim them."""
    await db.execute(
        "UPDATE outbox SET lease = NULL, leased_until = '-infinity'"
        " WHERE id = ANY ($1::uuid[]) AND lease = $2",
        list(ids),
        lease,
    )


async def withdraw(db: Db, aggregate_ids: Iterable[UUID]) -> set[UUID]:
    """Delete the replays of these aggregates that no relay has claimed; returns their aggregates."""
    rows = await db.fetch(
        "DELETE FROM outbox WHERE aggregate_id = ANY ($1::uuid[]) AND queue IS NOT NULL AND lease IS NULL"
        " RETURNING aggregate_id",
        list(aggregate_ids),
    )
    return {row["aggregate_id"] for row in rows}


async def round_places(db: Db, aggregate_ids: Sequence[UUID]) -> None:
    """Round the places in stored events of these aggregates, whose person is erased."""
    for table in ("outbox", "outbox_sent"):
        rows = await db.fetch(
            f"SELECT id, body::text AS body FROM {table} WHERE aggregate_id = ANY ($1::uuid[])",  # noqa: S608
            list(aggregate_ids),
        )
        await db.execute(
            f"UPDATE {table} t SET body = rounded.body"  # noqa: S608
            " FROM unnest($1::uuid[], $2::json[]) AS rounded (id, body) WHERE t.id = rounded.id",
            [row["id"] for row in rows],
            [rounded_places(row["body"].encode()).decode() for row in rows],
        )


async def backlog(db: Db) -> tuple[int, float]:
    """The number of unsent events that are due, and the age of the oldest in seconds."""
    row = await db.fetchrow(
        "SELECT count(*) AS depth,"
        " coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 AS age"
        " FROM (SELECT created_at FROM outbox WHERE created_at <= clock_timestamp()"
        "       ORDER BY position LIMIT 100000) AS oldest"
    )
    assert row is not None
    return row["depth"], max(0.0, row["age"])


async def prune_sent(db: Db, *, older_than: timedelta) -> int:
    """Delete events sent before that, a bounded number at a time; returns the number."""
    return await prune_rows(db, "outbox_sent", aged_by="sent_at", older_than=older_than)
