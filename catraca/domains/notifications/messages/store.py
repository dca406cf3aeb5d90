"""SQL on notifications. Numbers come from the user's row in notification_heads, locked to the commit."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from catraca.domains.notifications.messages.model import Announcement
from catraca.domains.notifications.model import NewNotification, Notification, frame_of
from catraca.domains.notifications.ride_notices.model import EndedDrive
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

PRUNED_AT_ONCE = 2000
COLUMNS = "user_id, seq, type, data::text AS data, created_at, read_at"


async def insert_notifications(db: Db, new: Sequence[NewNotification]) -> list[Announcement]:
    """Insert rows with each user's next numbers, in the given order; return them in that order."""
    data = [msgspec.json.encode(one.notice).decode() for one in new]
    rows = await db.fetch(
        "WITH new AS ("
        "   SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[])"
        "     WITH ORDINALITY AS t (user_id, type, data, event_id, about_id, offer_id, place)),"
        " heads AS ("
        "   INSERT INTO notification_heads AS head (user_id, seq)"
        # Ordered, so that two transactions that notify the same users cannot deadlock.
        "   SELECT user_id, count(*) FROM new GROUP BY user_id ORDER BY user_id"
        "   ON CONFLICT (user_id) DO UPDATE SET seq = head.seq + EXCLUDED.seq"
        "   RETURNING user_id, seq)"
        " INSERT INTO notifications (user_id, seq, type, data, event_id, about_id, offer_id)"
        " SELECT user_id,"
        "   heads.seq - count(*) OVER (PARTITION BY user_id)"
        "     + row_number() OVER (PARTITION BY user_id ORDER BY place),"
        "   type, data::json, event_id, about_id, offer_id"
        " FROM new JOIN heads USING (user_id) ORDER BY place"
        " RETURNING seq",
        [one.user_id for one in new],
        [one.notice.type for one in new],
        data,
        [one.event_id for one in new],
        [one.about_id for one in new],
        [one.offer_id for one in new],
    )
    return [
        Announcement(one.user_id, row["seq"], frame_of(row["seq"], one.notice.type, json))
        for one, json, row in zip(new, data, rows, strict=True)
    ]


async def read_since(db: Db, wanted: Sequence[tuple[UUID, int]], *, limit: int) -> list[list[Notification]]:
    """Return for each (user, number) up to `limit` notifications after that number, in order."""
    rows = await db.fetch(
        "SELECT wanted.place, n.user_id, n.seq, n.type, n.data::text AS data, n.created_at, n.read_at"
        " FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS wanted (user_id, since, place)"
        " CROSS JOIN LATERAL ("
        "   SELECT * FROM notifications WHERE user_id = wanted.user_id AND seq > wanted.since"
        "   ORDER BY seq LIMIT $3) AS n"
        " ORDER BY wanted.place, n.seq",
        [user_id for user_id, _ in wanted],
        [since for _, since in wanted],
        limit,
    )
    found: dict[int, list[Notification]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(_notification(row))
    return [found.get(place, []) for place in range(1, len(wanted) + 1)]


async def read_page(
    db: Db, user_id: UUID, *, since: int | None, before: int | None, unread: bool, limit: int
) -> list[Notification]:
    """Return rows upwards from `since`, or downwards from `before` or the last."""
    order = "ASC" if since is not None else "DESC"
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM notifications WHERE user_id = $1"  # noqa: S608 - a constant
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
    """Mark these and all up to a number, at most `limit`; return the numbers that were unread before."""
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


async def last_seqs(db: Db, user_ids: Iterable[UUID]) -> Mapping[UUID, int]:
    """Return the last number of each user; users without notifications are left out."""
    rows = await db.fetch(
        "SELECT user_id, seq FROM notification_heads WHERE user_id = ANY ($1::uuid[])", list(user_ids)
    )
    return {row["user_id"]: row["seq"] for row in rows}


async def seq_ranges(db: Db, user_ids: Iterable[UUID]) -> Mapping[UUID, tuple[int, int]]:
    """Return for each user the number before the first stored row, and the last number given."""
    rows = await db.fetch(
        "SELECT h.user_id, h.seq, coalesce("
        "   (SELECT min(n.seq) - 1 FROM notifications n WHERE n.user_id = h.user_id), h.seq) AS before_first"
        " FROM notification_heads h WHERE h.user_id = ANY ($1::uuid[])",
        list(user_ids),
    )
    return {row["user_id"]: (row["before_first"], row["seq"]) for row in rows}


async def acknowledge(db: Db, user_id: UUID, seq: int) -> tuple[int, list[UUID]]:
    """Store that a device has all up to `seq`; return the new position and the offers it newly covers."""
    row = await db.fetchrow(
        "WITH moved AS ("
        "   UPDATE notification_heads AS head SET acked_seq = greatest(head.acked_seq, least(head.seq, $2))"
        # Locked first: of two devices the second reads the position that the first has set.
        "   FROM (SELECT acked_seq FROM notification_heads WHERE user_id = $1 FOR UPDATE) AS before"
        "   WHERE head.user_id = $1 RETURNING head.acked_seq AS up_to, before.acked_seq AS since)"
        " SELECT up_to, ARRAY("
        "   SELECT offer_id FROM notifications WHERE user_id = $1 AND offer_id IS NOT NULL"
        "   AND seq > since AND seq <= up_to ORDER BY offer_id) AS offer_ids FROM moved",
        user_id,
        seq,
    )
    return (0, []) if row is None else (row["up_to"], row["offer_ids"])


async def clear_pickups(db: Db, drives: Sequence[EndedDrive]) -> None:
    """Clear passenger and pickup in the drivers' notifications of rides that they no longer drive."""
    await db.execute(
        "UPDATE notifications n SET about_id = NULL,"
        """   data = (n.data::jsonb || '{"passenger_id": null, "pickup_location": null}')::json"""
        " FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS ended (driver_id, passenger_id, ride_id)"
        " WHERE n.user_id = ended.driver_id AND n.about_id = ended.passenger_id AND n.type = 'ride.accepted'"
        "   AND n.data->>'ride_id' = ended.ride_id::text",
        [drive.driver_id for drive in drives],
        [drive.passenger_id for drive in drives],
        [drive.ride_id for drive in drives],
    )


async def prune_notifications(db: Db, *, older_than: timedelta) -> int:
    """Delete a bounded number of older rows, always a user's first ones; return how many."""
    return await db.fetchval(
        "WITH gone AS (DELETE FROM notifications WHERE (user_id, seq) IN ("
        "   SELECT user_id, seq FROM notifications"
        "   WHERE created_at < (SELECT clock_timestamp() - $1::interval)"
        # No SKIP LOCKED: a row that is being marked as read must not stay behind as a gap.
        "   ORDER BY created_at, seq LIMIT $2 FOR UPDATE) RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )


async def erase_notifications(db: Db, user_id: UUID) -> None:
    """Delete the user's notifications, and clear those of others about the user. Keeps the numbers.

    Drivers have notifications with the pickups of the user's rides.
    """
    await db.execute("DELETE FROM notifications WHERE user_id = $1", user_id)
    await db.execute("UPDATE notifications SET data = '{}', about_id = NULL WHERE about_id = $1", user_id)
    await db.execute(
        """
        UPDATE notifications n SET data = '{}'
        FROM rides r JOIN ride_offers o ON o.ride_id = r.id
        WHERE r.passenger_id = $1 AND n.user_id = o.driver_id AND n.data ->> 'ride_id' = r.id::text
          AND n.data::jsonb ?| '{pickup,pickup_location,passenger_id}'
        """,
        user_id,
    )


def _notification(row: Row) -> Notification:
    names = ("user_id", "seq", "type", "data", "created_at", "read_at")
    return Notification(*(row[name] for name in names))


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="notifications can be read",
        sentence="A constraint refuses notifications whose data are not an object, which would fail a list.",
        table="notifications",
        constraint="notifications_are_objects",
        definition=("json_typeof(data)", "object"),
    ),
    Invariant(
        name="notifications are numbered without gaps",
        sentence="Each user's notifications are numbered without gaps, up to the last number given.",
        query="SELECT h.user_id FROM notification_heads h CROSS JOIN LATERAL ("
        "   SELECT count(*) AS there, min(seq) AS first, max(seq) AS last FROM notifications n"
        "   WHERE n.user_id = h.user_id) AS n"
        " WHERE n.there > 0 AND (n.last <> h.seq OR n.last - n.first + 1 <> n.there)",
    ),
    ConstraintHeld(
        name="no duplicate notifications",
        sentence="A user gets each type of notification once per event.",
        table="notifications",
        constraint="told_once",
        definition=("UNIQUE", "user_id", "event_id", "type"),
    ),
)
