"""Every statement on notifications. Numbers come from a person's head row, held to the end."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains.notifications.model import Notification, Telling, write_notice
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

PRUNED_AT_ONCE = 2000
COLUMNS = "user_id, seq, type, data::text AS data, created_at, read_at"


async def insert_notifications(db: Db, tellings: Sequence[Telling]) -> list[Notification]:
    """Write them down under each person's next numbers, in the given order."""
    rows = await db.fetch(
        "WITH told AS ("
        "   SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[])"
        "     WITH ORDINALITY AS t (user_id, type, data, event_id, about_id, offer_id, place)),"
        " heads AS ("
        "   INSERT INTO notification_heads AS head (user_id, seq)"
        # In one order, so that two who tell the same people cannot wait for each other.
        "   SELECT user_id, count(*) FROM told GROUP BY user_id ORDER BY user_id"
        "   ON CONFLICT (user_id) DO UPDATE SET seq = head.seq + EXCLUDED.seq"
        "   RETURNING user_id, seq)"
        " INSERT INTO notifications (user_id, seq, type, data, event_id, about_id, offer_id)"
        " SELECT user_id,"
        "   heads.seq - count(*) OVER (PARTITION BY user_id)"
        "     + row_number() OVER (PARTITION BY user_id ORDER BY place),"
        "   type, data::json, event_id, about_id, offer_id"
        " FROM told JOIN heads USING (user_id) ORDER BY place"
        " RETURNING user_id, seq, type, data::text AS data, created_at, read_at",
        [one.user_id for one in tellings],
        [one.notice.type for one in tellings],
        [write_notice(one.notice) for one in tellings],
        [one.event_id for one in tellings],
        [one.about_id for one in tellings],
        [one.offer_id for one in tellings],
    )
    return [_notification(row) for row in rows]


async def read_since(db: Db, wanted: Sequence[tuple[UUID, int]], *, limit: int) -> list[list[Notification]]:
    """For each person what follows a number, in order, a page of it; one answer a question."""
    rows = await db.fetch(
        "SELECT asked.place, n.user_id, n.seq, n.type, n.data::text AS data, n.created_at, n.read_at"
        " FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS asked (user_id, since, place)"
        " CROSS JOIN LATERAL ("
        "   SELECT * FROM notifications WHERE user_id = asked.user_id AND seq > asked.since"
        "   ORDER BY seq LIMIT $3) AS n"
        " ORDER BY asked.place, n.seq",
        [user_id for user_id, _ in wanted],
        [since for _, since in wanted],
        limit,
    )
    found: dict[int, list[Notification]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(_notification(row))
    return [found.get(place, []) for place in range(1, len(wanted) + 1)]


async def page_of(
    db: Db, user_id: UUID, *, since: int | None, before: int | None, unread: bool, limit: int
) -> list[Notification]:
    """Upwards from `since`, or downwards from `before` (or the end)."""
    order = "ASC" if since is not None else "DESC"
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM notifications WHERE user_id = $1"  # noqa: S608 - our own words
        " AND ($2::bigint IS NULL OR seq > $2) AND ($3::bigint IS NULL OR seq < $3)"
        f" AND (NOT $4 OR read_at IS NULL) ORDER BY seq {order} LIMIT $5",
        user_id,
        since,
        before,
        unread,
        limit,
    )
    return [_notification(row) for row in rows]


async def count_unread(db: Db, user_id: UUID, *, up_to: int) -> int:
    return await db.fetchval(
        "SELECT count(*) FROM ("
        "   SELECT FROM notifications WHERE user_id = $1 AND read_at IS NULL LIMIT $2) AS n",
        user_id,
        up_to,
    )


async def mark_read(db: Db, user_id: UUID, *, seqs: Sequence[int], up_to: int, limit: int) -> list[int]:
    """Mark these, and all up to a number, a bounded many at a time; answers which were not before."""
    rows = await db.fetch(
        "UPDATE notifications SET read_at = clock_timestamp() WHERE user_id = $1 AND seq = ANY (ARRAY("
        "   SELECT seq FROM notifications WHERE user_id = $1 AND read_at IS NULL"
        "   AND (seq <= $2 OR seq = ANY ($3::bigint[])) ORDER BY seq LIMIT $4 FOR UPDATE))"
        " AND read_at IS NULL RETURNING seq",
        user_id,
        up_to,
        list(seqs),
        limit,
    )
    return sorted(row["seq"] for row in rows)


async def heads_of(db: Db, user_ids: Iterable[UUID]) -> Mapping[UUID, int]:
    """The last number of each of these; whoever was never told anything is left out."""
    rows = await db.fetch(
        "SELECT user_id, seq FROM notification_heads WHERE user_id = ANY ($1::uuid[])", list(user_ids)
    )
    return {row["user_id"]: row["seq"] for row in rows}


async def spans_of(db: Db, user_ids: Iterable[UUID]) -> Mapping[UUID, tuple[int, int]]:
    """Of each of these the number before the first that is still kept, and the last one given."""
    rows = await db.fetch(
        "SELECT h.user_id, h.seq, coalesce("
        "   (SELECT min(n.seq) - 1 FROM notifications n WHERE n.user_id = h.user_id), h.seq) AS before_first"
        " FROM notification_heads h WHERE h.user_id = ANY ($1::uuid[])",
        list(user_ids),
    )
    return {row["user_id"]: (row["before_first"], row["seq"]) for row in rows}


async def acknowledge(db: Db, user_id: UUID, seq: int) -> tuple[int, list[UUID]]:
    """Note that a device has everything up to `seq`; answers up to where, and which offers are among it."""
    row = await db.fetchrow(
        "WITH moved AS ("
        "   UPDATE notification_heads AS head SET acked_seq = greatest(head.acked_seq, least(head.seq, $2))"
        # Locked first: of two devices the second sees what the first has acknowledged.
        "   FROM (SELECT acked_seq FROM notification_heads WHERE user_id = $1 FOR UPDATE) AS before"
        "   WHERE head.user_id = $1 RETURNING head.acked_seq AS up_to, before.acked_seq AS since)"
        " SELECT up_to, ARRAY("
        "   SELECT offer_id FROM notifications WHERE user_id = $1 AND offer_id IS NOT NULL"
        "   AND seq > since AND seq <= up_to ORDER BY offer_id) AS offer_ids FROM moved",
        user_id,
        seq,
    )
    return (0, []) if row is None else (row["up_to"], row["offer_ids"])


async def prune(db: Db, *, older_than: timedelta) -> int:
    """Remove what is older, a bounded number: always a person's first ones, so none is missing in between."""
    return await db.fetchval(
        "WITH gone AS (DELETE FROM notifications WHERE (user_id, seq) IN ("
        "   SELECT user_id, seq FROM notifications"
        "   WHERE created_at < (SELECT clock_timestamp() - $1::interval)"
        # Whoever is marking one as read is waited for: a row that was skipped would be left alone in between.
        "   ORDER BY created_at, seq LIMIT $2 FOR UPDATE) RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )


async def forget(db: Db, user_id: UUID) -> None:
    """What the person was told goes, and their name from what others were told. Numbers are not reused."""
    await db.execute("DELETE FROM notifications WHERE user_id = $1", user_id)
    await db.execute("UPDATE notifications SET data = '{}', about_id = NULL WHERE about_id = $1", user_id)


def _notification(row: Row) -> Notification:
    names = ("user_id", "seq", "type", "data", "created_at", "read_at")
    return Notification(*(row[name] for name in names))


INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        name="notifications without a gap",
        sentence="Each person's notifications are numbered without a gap, up to the last number given.",
        query="SELECT h.user_id FROM notification_heads h CROSS JOIN LATERAL ("
        "   SELECT count(*) AS there, min(seq) AS first, max(seq) AS last FROM notifications n"
        "   WHERE n.user_id = h.user_id) AS n"
        " WHERE n.there > 0 AND (n.last <> h.seq OR n.last - n.first + 1 <> n.there)",
    ),
    ConstraintHeld(
        name="nobody is told the same twice",
        sentence="An event tells a person each thing once.",
        table="notifications",
        constraint="told_once",
        definition=("UNIQUE", "user_id", "event_id", "type"),
    ),
)
