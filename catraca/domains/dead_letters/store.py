"""Every statement on dead letters."""

from datetime import timedelta

import msgspec

from catraca.platform.bus import Headers, Message
from catraca.platform.database import Db
from catraca.platform.ids import new_id

PRUNED_AT_ONCE = 1000
COUNTED_TO = 10_000


async def insert_dead_letter(db: Db, message: Message) -> None:
    """Keep the message as it was; one that dies in the same queue again stays one letter."""
    headers = _readable(message.headers)
    await db.execute(
        "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        " ON CONFLICT (queue, message_id) DO UPDATE"
        "   SET reason = EXCLUDED.reason, headers = EXCLUDED.headers, body = EXCLUDED.body,"
        "       died_at = EXCLUDED.died_at, times = dead_letters.times + 1",
        new_id(),
        headers.queue or "unknown",
        message.id,
        _text(message.exchange),
        _text(message.key),
        headers.reason or "unknown",
        msgspec.json.encode(headers).decode(),
        message.body,
    )


async def count_dead_letters(db: Db) -> dict[tuple[str, str], int]:
    """How many there are by queue and reason, counted up to 10 000; the index is asked for each group."""
    rows = await db.fetch(
        "WITH RECURSIVE groups AS ("
        "   (SELECT queue, reason FROM dead_letters ORDER BY queue, reason LIMIT 1)"
        "   UNION ALL"
        "   SELECT n.queue, n.reason FROM groups g CROSS JOIN LATERAL ("
        "     SELECT queue, reason FROM dead_letters d WHERE (d.queue, d.reason) > (g.queue, g.reason)"
        "     ORDER BY queue, reason LIMIT 1) n)"
        " SELECT g.queue, g.reason, (SELECT count(*) FROM ("
        "   SELECT FROM dead_letters d WHERE d.queue = g.queue AND d.reason = g.reason LIMIT $1) f) AS count"
        " FROM groups g",
        COUNTED_TO,
    )
    return {(row["queue"], row["reason"]): row["count"] for row in rows}


async def prune_dead_letters(db: Db, *, older_than: timedelta) -> int:
    return await db.fetchval(
        "WITH old AS ("
        "   SELECT id FROM dead_letters WHERE died_at < (SELECT clock_timestamp() - $1::interval)"
        "   ORDER BY died_at LIMIT $2 FOR UPDATE SKIP LOCKED),"
        " gone AS (DELETE FROM dead_letters WHERE id IN (SELECT id FROM old) RETURNING id)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )


def _readable(headers: Headers) -> Headers:
    """The same, as far as the database can hold it: whoever sent this may not have been one of us."""
    texts = {
        name: _text(value)
        for name, value in msgspec.structs.asdict(headers).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(headers, **texts)


def _text(value: str) -> str:
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")
