"""Statements that store, count and read dead letters."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from catraca.domains.dead_letters.letters.model import (
    NAME_MAX_CHARACTERS,
    SHAPE_MAX_BYTES,
    Filter,
    Group,
    Letter,
    LetterId,
    ListedLetter,
    OpenLetter,
    shape_of,
)
from catraca.platform.bus import Headers, Message
from catraca.platform.database import Db, Row
from catraca.platform.database.conditions import Conditions
from catraca.platform.ids import new_id

GROUP_MAX_COUNT = 10_000
MAX_GROUPS = 1000
EXPORT_MAX_LETTERS = 1000

LETTER = (
    "id, queue, message_id, exchange, routing_key AS key, reason, headers, octet_length(body) AS size_bytes,"
    " is_json, died_at, times, state, decided_at, decided_by, decision_reason, edited_at, edited_by"
)
FILTERS = {
    "state": "state = {}",
    "queue": "queue = {}",
    "reason": "reason = {}",
    "key": "routing_key = {}",
    "message_id": "message_id = {}",
    "died_after": "died_at > {}",
    "died_before": "died_at < {}",
}
BEFORE = "(died_at, id) < ((SELECT died_at FROM dead_letters WHERE id = {0}), {0})"


async def insert_dead_letter(db: Db, message: Message) -> None:
    """Store a message that died. If it died in the same queue before, its letter waits again.

    The new body replaces the stored one, unless the stored one was edited and the message is the unedited
    one: it was replayed before the edit, and must not undo the edit.
    """
    headers = _storable(message.headers)
    await db.execute(
        """
        INSERT INTO dead_letters AS d (id, queue, message_id, exchange, routing_key, reason, headers, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (queue, message_id) DO UPDATE
          SET reason = EXCLUDED.reason, headers = EXCLUDED.headers, died_at = EXCLUDED.died_at,
              body = CASE WHEN EXCLUDED.body = d.original_body THEN d.body ELSE EXCLUDED.body END,
              times = d.times + 1, version = d.version + 1,
              state = 'waiting', decided_at = NULL, decided_by = NULL, decision_reason = NULL
        """,
        new_id(),
        headers.queue or "unknown",
        message.id,
        _storable_text(message.exchange),
        _storable_text(message.key),
        headers.reason or "unknown",
        msgspec.json.encode(headers).decode(),
        message.body,
    )


async def find_letters(
    db: Db, wanted: Filter, *, after: LetterId | None, limit: int
) -> Sequence[ListedLetter]:
    """The newest first, starting behind `after`. Only bodies of which a shape is shown are read."""
    where = conditions_of(wanted)
    if after is not None:
        # Letters are pruned by age: if `after` is gone, all older letters are gone too.
        where.add(BEFORE, after)
    rows = await db.fetch(
        f"""
        SELECT {LETTER}, CASE WHEN octet_length(body) <= {SHAPE_MAX_BYTES} THEN body END AS small_body
        FROM dead_letters WHERE {where} ORDER BY died_at DESC, id DESC LIMIT {where.value(limit)}
        """,  # noqa: S608 - our own words
        *where.values,
    )
    return [ListedLetter(**_fields(row), shape=_shape(row["small_body"])) for row in rows]


# The recursion asks the index for the first letter of the next group: one step per group.
GROUPS = """
    WITH RECURSIVE groups AS (
      (SELECT queue, reason FROM dead_letters WHERE state = 'waiting' ORDER BY queue, reason LIMIT 1)
      UNION ALL
      SELECT n.queue, n.reason FROM groups g CROSS JOIN LATERAL (
        SELECT queue, reason FROM dead_letters d
        WHERE state = 'waiting' AND (d.queue, d.reason) > (g.queue, g.reason)
        ORDER BY queue, reason LIMIT 1) n),
    found AS (SELECT * FROM groups LIMIT $2)
    SELECT g.queue, g.reason, (SELECT count(*) FROM (
      SELECT FROM dead_letters d WHERE state = 'waiting' AND d.queue = g.queue AND d.reason = g.reason
      LIMIT $1) f) AS count
"""


async def count_waiting(db: Db) -> dict[tuple[str, str], int]:
    """The number of waiting letters by queue and reason, counted up to 10 000."""
    rows = await db.fetch(GROUPS + " FROM found g", GROUP_MAX_COUNT, MAX_GROUPS)
    return {(row["queue"], row["reason"]): row["count"] for row in rows}


async def find_groups(db: Db) -> Sequence[Group]:
    """Like `count_waiting`, with the times of the oldest and newest letter; the largest group first."""
    rows = await db.fetch(
        f"""
        {GROUPS}, ends.*
        FROM found g CROSS JOIN LATERAL (
          SELECT min(died_at) AS oldest_at, max(died_at) AS newest_at FROM dead_letters d
          WHERE state = 'waiting' AND d.queue = g.queue AND d.reason = g.reason) AS ends
        ORDER BY count DESC, queue, reason
        """,  # noqa: S608 - our own words
        GROUP_MAX_COUNT,
        MAX_GROUPS,
    )
    return [Group(**row) for row in rows]


async def read_letter(db: Db, letter_id: LetterId, *, lock: bool = False) -> OpenLetter | None:
    """The letter with its body; with `lock`, locked until the transaction ends."""
    row = await db.fetchrow(
        f"SELECT {LETTER}, body, original_body FROM dead_letters WHERE id = $1"  # noqa: S608 - our own words
        + (" FOR UPDATE" if lock else ""),
        letter_id,
    )
    return None if row is None else _open_letter_of(row)


async def read_letters(db: Db, letter_ids: Iterable[LetterId]) -> Sequence[OpenLetter]:
    rows = await db.fetch(
        f"SELECT {LETTER}, body, original_body FROM dead_letters WHERE id = ANY ($1::uuid[]) ORDER BY id",  # noqa: S608
        list(letter_ids),
    )
    return [_open_letter_of(row) for row in rows]


async def read_letters_about(db: Db, subject_id: UUID) -> Sequence[Row]:
    return await db.fetch(
        "SELECT queue, reason, state, died_at FROM dead_letters WHERE headers ->> 'aggregate_id' = $1"
        " ORDER BY died_at LIMIT $2",
        str(subject_id),
        EXPORT_MAX_LETTERS,
    )


async def erase_letters_about(db: Db, subject_id: UUID) -> None:
    """Delete decided letters about a person, or about a ride of theirs as passenger, and their replays.

    Waiting letters stay: their message was never applied.
    """
    await db.execute(
        """
        WITH gone AS (
          DELETE FROM dead_letters WHERE state <> 'waiting' AND headers ->> 'aggregate_id' = ANY (ARRAY(
            SELECT $1::text UNION ALL SELECT id::text FROM rides WHERE passenger_id = $1::uuid
            UNION ALL SELECT o.id::text FROM ride_offers o JOIN rides r ON r.id = o.ride_id
            WHERE r.passenger_id = $1::uuid))
          RETURNING id),
        unsent AS (
          DELETE FROM outbox WHERE queue IS NOT NULL AND aggregate_id IN (SELECT id FROM gone))
        DELETE FROM outbox_sent WHERE queue IS NOT NULL AND aggregate_id IN (SELECT id FROM gone)
        """,
        str(subject_id),
    )


def conditions_of(wanted: Filter) -> Conditions:
    where = Conditions()
    for name, value in wanted.given.items():
        where.add(FILTERS[name], value)
    return where


def letter_of(row: Row) -> Letter:
    return Letter(**_fields(row))


def _open_letter_of(row: Row) -> OpenLetter:
    return OpenLetter(**_fields(row), body=row["body"], original_body=row["original_body"])


def _fields(row: Row) -> dict[str, Any]:
    same = {name: row[name] for name in Letter.__slots__}
    return same | {"headers": msgspec.json.decode(row["headers"], type=Headers)}


def _shape(body: bytes | None) -> object:
    return None if body is None else shape_of(body)


def _storable(headers: Headers) -> Headers:
    """The headers without characters that PostgreSQL cannot store; foreign messages may have them."""
    texts = {
        name: _storable_text(value)
        for name, value in msgspec.structs.asdict(headers).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(headers, **texts)


def _storable_text(value: str) -> str:
    """Cut to a length that an index accepts."""
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")[:NAME_MAX_CHARACTERS]
