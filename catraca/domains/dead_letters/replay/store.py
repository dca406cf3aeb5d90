"""Statements that edit, replay, discard and delete dead letters.

Every decision locks the letter's row first; its replay in the outbox follows.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains.dead_letters.letters.model import Filter, Letter, LetterId
from catraca.domains.dead_letters.letters.store import LETTER, conditions_of, letter_of
from catraca.platform.database import Db

REPLAYABLE = "is_json AND queue = ANY ({}::text[])"


async def count_letters(
    db: Db, wanted: Filter, *, at_most: int, not_replayable_to: Iterable[str] | None = None
) -> int:
    """The number of letters; with `not_replayable_to`, of those that cannot be replayed to these queues."""
    where = conditions_of(wanted)
    if not_replayable_to is not None:
        where.add(f"NOT ({REPLAYABLE})", list(not_replayable_to))
    return await db.fetchval(
        f"SELECT count(*) FROM (SELECT FROM dead_letters WHERE {where} LIMIT {where.value(at_most)}) AS few",  # noqa: S608
        *where.values,
    )


async def update_body(db: Db, letter_id: LetterId, body: bytes, *, by: UUID | None) -> bool:
    """Replace the body and set the letter to waiting; the first body is kept. True if the body is JSON."""
    return await db.fetchval(
        """
        UPDATE dead_letters SET original_body = coalesce(original_body, body), body = $2,
          edited_at = clock_timestamp(), edited_by = $3, version = version + 1,
          state = 'waiting', decided_at = NULL, decided_by = NULL, decision_reason = NULL
        WHERE id = $1 RETURNING is_json
        """,
        letter_id,
        body,
        by,
    )


async def lock_replayable(db: Db, wanted: Filter, queues: Iterable[str], *, limit: int) -> Sequence[LetterId]:
    """Letters that can be replayed to these queues, the oldest first; locked letters are skipped."""
    where = conditions_of(wanted)
    where.add(REPLAYABLE, list(queues))
    rows = await db.fetch(
        f"SELECT id FROM dead_letters WHERE {where}"  # noqa: S608 - our own words
        f" ORDER BY died_at, id LIMIT {where.value(limit)} FOR UPDATE SKIP LOCKED",
        *where.values,
    )
    return [row["id"] for row in rows]


async def replay_letters(
    db: Db, letter_ids: Sequence[LetterId], *, rate_per_second: float, by: UUID | None
) -> None:
    """Add a replay of each letter to the outbox, for its own queue only, spread over time by the rate.

    The sequence number of a replay is the letter's version, so a replay that waits in the outbox is not added
    again.
    """
    await db.execute(
        """
        WITH chosen AS (SELECT * FROM unnest($1::uuid[]) WITH ORDINALITY AS c (id, place)),
        replayed AS (
          UPDATE dead_letters d SET state = 'replayed', decided_at = clock_timestamp(), decided_by = $3,
            decision_reason = NULL
          FROM chosen WHERE d.id = chosen.id RETURNING d.*, chosen.place),
        timed AS (
          SELECT *, (SELECT clock_timestamp()) + make_interval(secs => (place - 1) / $2::float8) AS due
          FROM replayed)
        INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body, queue, message_id,
          created_at, leased_until)
        SELECT gen_random_uuid(), id, version, exchange, routing_key,
          -- Without the headers of the failed deliveries: the retries start again.
          (headers - ARRAY['retries', 'retry_reason', 'sent_at', 'queue', 'reason'])::json,
          convert_from(body, 'UTF8')::json, queue, message_id, due, due
        FROM timed ORDER BY place ON CONFLICT (aggregate_id, seq) DO NOTHING
        """,
        list(letter_ids),
        rate_per_second,
        by,
    )


async def lock_waiting(db: Db, wanted: Filter, *, limit: int) -> Sequence[Letter]:
    """Waiting letters, the oldest first; locked letters are skipped."""
    where = conditions_of(wanted)
    rows = await db.fetch(
        f"SELECT {LETTER} FROM dead_letters WHERE {where} AND state = 'waiting'"  # noqa: S608 - our own words
        f" ORDER BY died_at, id LIMIT {where.value(limit)} FOR UPDATE SKIP LOCKED",
        *where.values,
    )
    return [letter_of(row) for row in rows]


async def discard_letters(db: Db, letter_ids: Iterable[LetterId], *, reason: str, by: UUID | None) -> None:
    await db.execute(
        "UPDATE dead_letters SET state = 'discarded', decided_at = clock_timestamp(), decided_by = $3,"
        "   decision_reason = $2 WHERE id = ANY ($1::uuid[])",
        list(letter_ids),
        reason,
        by,
    )


async def lock_old(db: Db, *, older_than: timedelta, limit: int) -> Sequence[Letter]:
    """Letters that died longer ago than `older_than`; locked letters are skipped."""
    rows = await db.fetch(
        f"SELECT {LETTER} FROM dead_letters WHERE died_at < (SELECT clock_timestamp() - $1::interval)"  # noqa: S608
        " ORDER BY died_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        older_than,
        limit,
    )
    return [letter_of(row) for row in rows]


async def delete_letters(db: Db, letter_ids: Iterable[LetterId]) -> None:
    await db.execute("DELETE FROM dead_letters WHERE id = ANY ($1::uuid[])", list(letter_ids))
