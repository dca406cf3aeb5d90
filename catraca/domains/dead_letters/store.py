"""Every statement on dead letters.

Whoever decides on a letter locks its row first, then takes back or writes its replay in the outbox.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from catraca.domains.dead_letters.model import (
    NAME_MAX_CHARACTERS,
    SHOWN_MAX_BYTES,
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
from catraca.platform.ids import new_id

COUNTED_TO = 10_000
GROUPS_AT_MOST = 1000

LETTER = (
    "id, queue, message_id, exchange, routing_key, reason, headers, octet_length(body) AS size_bytes,"
    " is_json, died_at, times, state, decided_at, decided_by, decision_reason, edited_at, edited_by"
)
CONDITIONS = {
    "state": "state = ${}",
    "queue": "queue = ${}",
    "reason": "reason = ${}",
    "key": "routing_key = ${}",
    "message_id": "message_id = ${}",
    "died_after": "died_at > ${}",
    "died_before": "died_at < ${}",
}


async def insert_dead_letter(db: Db, message: Message) -> None:
    """Keep the message as it was; one that dies in the same queue again stays one letter, and waits again.

    Only one case keeps the body that is there: it was edited, and what died now is the unedited message,
    which had been replayed before. That must not undo a person's work.
    """
    headers = _readable(message.headers)
    await db.execute(
        "INSERT INTO dead_letters AS d (id, queue, message_id, exchange, routing_key, reason, headers, body)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        " ON CONFLICT (queue, message_id) DO UPDATE"
        "   SET reason = EXCLUDED.reason, headers = EXCLUDED.headers, died_at = EXCLUDED.died_at,"
        "       body = CASE WHEN EXCLUDED.body = d.original_body THEN d.body ELSE EXCLUDED.body END,"
        "       times = d.times + 1, version = d.version + 1,"
        "       state = 'waiting', decided_at = NULL, decided_by = NULL, decision_reason = NULL",
        new_id(),
        headers.queue or "unknown",
        message.id,
        _text(message.exchange),
        _text(message.key),
        headers.reason or "unknown",
        msgspec.json.encode(headers).decode(),
        message.body,
    )


async def find_letters(
    db: Db, wanted: Filter, *, after: LetterId | None, limit: int
) -> Sequence[ListedLetter]:
    """The newest first, from the one after `after`; bodies only as far as their shape is shown."""
    where, values = _where(wanted)
    if after is not None:
        # Who is gone went by age, and all who are older went too: nothing follows.
        values.append(after)
        last = f"${len(values)}"
        where += f" AND (died_at, id) < ((SELECT died_at FROM dead_letters WHERE id = {last}), {last})"  # noqa: S608
    rows = await db.fetch(
        f"SELECT {LETTER}, CASE WHEN octet_length(body) <= {SHOWN_MAX_BYTES} THEN body END AS shown"  # noqa: S608
        f" FROM dead_letters WHERE {where} ORDER BY died_at DESC, id DESC LIMIT ${len(values) + 1}",
        *values,
        limit,
    )
    return [ListedLetter(**_fields(row), shape=_shape(row["shown"])) for row in rows]


async def count_letters(db: Db, wanted: Filter, *, at_most: int, unfit_for: Iterable[str] | None) -> int:
    """How many there are; with `unfit_for`, how many of them could not be replayed into these queues."""
    where, values = _where(wanted)
    if unfit_for is not None:
        where += f" AND NOT (is_json AND queue = ANY (${len(values) + 2}::text[]))"
    return await db.fetchval(
        f"SELECT count(*) FROM (SELECT FROM dead_letters WHERE {where} LIMIT ${len(values) + 1}) AS few",  # noqa: S608
        *values,
        at_most,
        *([] if unfit_for is None else [list(unfit_for)]),
    )


# From group to group, one step each: the index is asked for the next one's first letter.
_GROUPS = (
    "WITH RECURSIVE groups AS ("
    "   (SELECT queue, reason FROM dead_letters WHERE state = 'waiting' ORDER BY queue, reason LIMIT 1)"
    "   UNION ALL"
    "   SELECT n.queue, n.reason FROM groups g CROSS JOIN LATERAL ("
    "     SELECT queue, reason FROM dead_letters d"
    "     WHERE state = 'waiting' AND (d.queue, d.reason) > (g.queue, g.reason)"
    "     ORDER BY queue, reason LIMIT 1) n),"
    " found AS (SELECT * FROM groups LIMIT $2)"
    " SELECT g.queue, g.reason, (SELECT count(*) FROM ("
    "   SELECT FROM dead_letters d WHERE state = 'waiting' AND d.queue = g.queue AND d.reason = g.reason"
    "   LIMIT $1) f) AS count"
)


async def count_dead_letters(db: Db) -> dict[tuple[str, str], int]:
    """How many wait by queue and reason, counted up to 10 000."""
    rows = await db.fetch(_GROUPS + " FROM found g", COUNTED_TO, GROUPS_AT_MOST)
    return {(row["queue"], row["reason"]): row["count"] for row in rows}


async def find_groups(db: Db) -> Sequence[Group]:
    """The same with the times of the first and the last; the largest group first."""
    rows = await db.fetch(
        _GROUPS + ", ends.*"  # noqa: S608 - our own words
        " FROM found g CROSS JOIN LATERAL ("
        "   SELECT min(died_at) AS oldest_at, max(died_at) AS newest_at FROM dead_letters d"
        "   WHERE state = 'waiting' AND d.queue = g.queue AND d.reason = g.reason) AS ends"
        " ORDER BY count DESC, queue, reason",
        COUNTED_TO,
        GROUPS_AT_MOST,
    )
    return [Group(**row) for row in rows]


async def read_letter(db: Db, letter_id: LetterId, *, lock: bool = False) -> OpenLetter | None:
    """The letter with its body; locked, nobody else decides on it until the transaction ends."""
    row = await db.fetchrow(
        f"SELECT {LETTER}, body, original_body FROM dead_letters WHERE id = $1"  # noqa: S608 - our own words
        + (" FOR UPDATE" if lock else ""),
        letter_id,
    )
    return None if row is None else _open(row)


async def read_letters(db: Db, letter_ids: Iterable[LetterId]) -> Sequence[OpenLetter]:
    rows = await db.fetch(
        f"SELECT {LETTER}, body, original_body FROM dead_letters WHERE id = ANY ($1::uuid[]) ORDER BY id",  # noqa: S608
        list(letter_ids),
    )
    return [_open(row) for row in rows]


async def update_body(db: Db, letter_id: LetterId, body: bytes, *, by: UUID | None) -> bool:
    """Another version of the letter, which waits; the first body is kept. Answers whether it is JSON."""
    return await db.fetchval(
        "UPDATE dead_letters SET original_body = coalesce(original_body, body), body = $2,"
        "   edited_at = clock_timestamp(), edited_by = $3, version = version + 1,"
        "   state = 'waiting', decided_at = NULL, decided_by = NULL, decision_reason = NULL"
        " WHERE id = $1 RETURNING is_json",
        letter_id,
        body,
        by,
    )


async def lock_replayable(db: Db, wanted: Filter, queues: Iterable[str], *, limit: int) -> Sequence[LetterId]:
    """Those that can be replayed into these queues, the oldest first; past those in another's hand."""
    where, values = _where(wanted)
    rows = await db.fetch(
        f"SELECT id FROM dead_letters WHERE {where}"  # noqa: S608 - our own words
        f" AND is_json AND queue = ANY (${len(values) + 1}::text[])"
        f" ORDER BY died_at, id LIMIT ${len(values) + 2} FOR UPDATE SKIP LOCKED",
        *values,
        list(queues),
        limit,
    )
    return [row["id"] for row in rows]


async def replay_letters(
    db: Db, letter_ids: Sequence[LetterId], *, rate_per_second: float, by: UUID | None
) -> None:
    """Into the outbox, each to its own queue alone, and no faster than that: they leave one after another.

    What is under way already is not added again: a replay's number is the letter's version.
    """
    await db.execute(
        "WITH chosen AS (SELECT * FROM unnest($1::uuid[]) WITH ORDINALITY AS c (id, place)),"
        " replayed AS ("
        "   UPDATE dead_letters d SET state = 'replayed', decided_at = clock_timestamp(), decided_by = $3,"
        "     decision_reason = NULL"
        "   FROM chosen WHERE d.id = chosen.id RETURNING d.*, chosen.place),"
        " timed AS ("
        "   SELECT *, (SELECT clock_timestamp()) + make_interval(secs => (place - 1) / $2::float8) AS due"
        "   FROM replayed)"
        " INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body, queue, message_id,"
        "   created_at, leased_until)"
        " SELECT gen_random_uuid(), id, version, exchange, routing_key,"
        # It is tried anew: what became of it the last time does not count.
        "   (headers - ARRAY['retries', 'retry_reason', 'sent_at', 'queue', 'reason'])::json,"
        "   convert_from(body, 'UTF8')::json, queue, message_id, due, due"
        " FROM timed ORDER BY place ON CONFLICT (aggregate_id, seq) DO NOTHING",
        list(letter_ids),
        rate_per_second,
        by,
    )


async def lock_waiting(db: Db, wanted: Filter, *, limit: int) -> Sequence[Letter]:
    """The oldest first; past those in another's hand."""
    where, values = _where(wanted)
    rows = await db.fetch(
        f"SELECT {LETTER} FROM dead_letters WHERE {where} AND state = 'waiting'"  # noqa: S608 - our own words
        f" ORDER BY died_at, id LIMIT ${len(values) + 1} FOR UPDATE SKIP LOCKED",
        *values,
        limit,
    )
    return [Letter(**_fields(row)) for row in rows]


async def discard_letters(db: Db, letter_ids: Iterable[LetterId], *, reason: str, by: UUID | None) -> None:
    await db.execute(
        "UPDATE dead_letters SET state = 'discarded', decided_at = clock_timestamp(), decided_by = $3,"
        "   decision_reason = $2 WHERE id = ANY ($1::uuid[])",
        list(letter_ids),
        reason,
        by,
    )


async def lock_old(db: Db, *, older_than: timedelta, limit: int) -> Sequence[Letter]:
    """Those that died longer ago than that; past those in another's hand."""
    rows = await db.fetch(
        f"SELECT {LETTER} FROM dead_letters WHERE died_at < (SELECT clock_timestamp() - $1::interval)"  # noqa: S608
        " ORDER BY died_at LIMIT $2 FOR UPDATE SKIP LOCKED",
        older_than,
        limit,
    )
    return [Letter(**_fields(row)) for row in rows]


async def delete_letters(db: Db, letter_ids: Iterable[LetterId]) -> None:
    await db.execute("DELETE FROM dead_letters WHERE id = ANY ($1::uuid[])", list(letter_ids))


async def read_letters_about(db: Db, subject_id: UUID, *, limit: int = 1000) -> Sequence[Row]:
    return await db.fetch(
        "SELECT queue, reason, state, died_at FROM dead_letters WHERE headers ->> 'aggregate_id' = $1"
        " ORDER BY died_at LIMIT $2",
        str(subject_id),
        limit,
    )


async def erase_letters_about(db: Db, subject_id: UUID) -> None:
    """With the copies that were or will be replayed. What still waits has not happened to anybody yet."""
    await db.execute(
        "WITH gone AS ("
        "   DELETE FROM dead_letters WHERE headers ->> 'aggregate_id' = $1 AND state <> 'waiting'"
        "   RETURNING id),"
        " unsent AS ("
        "   DELETE FROM outbox WHERE queue IS NOT NULL AND aggregate_id IN (SELECT id FROM gone))"
        " DELETE FROM outbox_sent WHERE queue IS NOT NULL AND aggregate_id IN (SELECT id FROM gone)",
        str(subject_id),
    )


def _where(wanted: Filter) -> tuple[str, list[object]]:
    """The condition with its values: only what is asked for, so that it is planned for just that."""
    given = wanted.given
    parts = [CONDITIONS[name].format(place) for place, name in enumerate(given, 1)]
    return " AND ".join(["true", *parts]), list(given.values())


def _fields(row: Row) -> dict[str, Any]:
    return {
        "id": LetterId(row["id"]),
        "key": row["routing_key"],
        "headers": msgspec.json.decode(row["headers"], type=Headers),
        **{
            name: row[name]
            for name in (
                "queue",
                "message_id",
                "exchange",
                "reason",
                "size_bytes",
                "is_json",
                "died_at",
                "times",
                "state",
                "decided_at",
                "decided_by",
                "decision_reason",
                "edited_at",
                "edited_by",
            )
        },
    }


def _open(row: Row) -> OpenLetter:
    return OpenLetter(**_fields(row), body=row["body"], original_body=row["original_body"])


def _shape(body: bytes | None) -> object:
    return None if body is None else shape_of(body)


def _readable(headers: Headers) -> Headers:
    """The same, as far as the database can hold it: whoever sent this may not have been one of us."""
    texts = {
        name: _text(value)
        for name, value in msgspec.structs.asdict(headers).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(headers, **texts)


def _text(value: str) -> str:
    """No longer than an index can hold, either."""
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")[:NAME_MAX_CHARACTERS]
