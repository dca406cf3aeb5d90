"""SQL on push_subscriptions. A device counts while `access_holds`: until its owner's tokens are revoked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.platform.database import Db
from catraca.platform.database.retention import PRUNED_AT_ONCE
from catraca.platform.ids import new_id
from catraca.platform.web_push import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A subscribed device, without its keys."""

    id: UUID
    endpoint: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPush:
    subscription: Subscription
    type: str
    data: str
    # A device of the user has acknowledged the notification.
    acknowledged: bool


async def save_subscription(
    db: Db, user_id: UUID, subscription: Subscription, *, granted_at: datetime
) -> Device | None:
    """Insert or renew. Another user's device becomes this user's if its keys are given; None if not.

    Digests are compared, not the keys: the time that a comparison takes then says nothing about a key.
    """
    row = await db.fetchrow(
        """
        INSERT INTO push_subscriptions AS s (id, user_id, endpoint, p256dh, auth, granted_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (endpoint) DO UPDATE
        SET user_id = EXCLUDED.user_id, p256dh = EXCLUDED.p256dh, auth = EXCLUDED.auth,
          created_at = clock_timestamp(), granted_at = EXCLUDED.granted_at
        WHERE s.user_id = EXCLUDED.user_id OR NOT access_holds(s.user_id, s.granted_at)
          OR sha256(convert_to(s.p256dh || ' ' || s.auth, 'UTF8'))
            = sha256(convert_to(EXCLUDED.p256dh || ' ' || EXCLUDED.auth, 'UTF8'))
        RETURNING id, endpoint, created_at
        """,
        new_id(),
        user_id,
        subscription.endpoint,
        subscription.p256dh,
        subscription.auth,
        granted_at,
    )
    return None if row is None else Device(**row)


async def delete_oldest(db: Db, user_id: UUID, *, keep: int) -> None:
    await db.execute(
        "DELETE FROM push_subscriptions WHERE id = ANY (ARRAY("
        "   SELECT id FROM push_subscriptions WHERE user_id = $1"
        "   ORDER BY created_at DESC, id DESC OFFSET $2))",
        user_id,
        keep,
    )


async def read_devices(db: Db, user_id: UUID) -> list[Device]:
    rows = await db.fetch(
        "SELECT id, endpoint, created_at FROM push_subscriptions"
        " WHERE user_id = $1 AND access_holds(user_id, granted_at) ORDER BY created_at",
        user_id,
    )
    return [Device(**row) for row in rows]


async def subscriptions_of(db: Db, user_ids: Iterable[UUID]) -> Sequence[tuple[UUID, UUID]]:
    """Return (user, subscription) pairs."""
    rows = await db.fetch(
        "SELECT user_id, id FROM push_subscriptions"
        " WHERE user_id = ANY ($1::uuid[]) AND access_holds(user_id, granted_at) ORDER BY id",
        list(user_ids),
    )
    return [(row["user_id"], row["id"]) for row in rows]


async def read_pending(db: Db, subscription_id: UUID, *, user_id: UUID, seq: int) -> PendingPush | None:
    """Return None if the user no longer has the device or the notification."""
    row = await db.fetchrow(
        "SELECT s.endpoint, s.p256dh, s.auth, n.type, n.data::text AS data,"
        "   h.acked_seq >= n.seq AS acknowledged"
        " FROM push_subscriptions s"
        " JOIN notifications n ON n.user_id = s.user_id AND n.seq = $3"
        " JOIN notification_heads h ON h.user_id = s.user_id"
        " WHERE s.id = $1 AND s.user_id = $2 AND access_holds(s.user_id, s.granted_at)",
        subscription_id,
        user_id,
        seq,
    )
    if row is None:
        return None
    return PendingPush(
        subscription=Subscription(row["endpoint"], row["p256dh"], row["auth"]),
        type=row["type"],
        data=row["data"],
        acknowledged=row["acknowledged"],
    )


async def delete_subscription(db: Db, user_id: UUID, subscription_id: UUID) -> None:
    await db.execute(
        "DELETE FROM push_subscriptions WHERE id = $1 AND user_id = $2", subscription_id, user_id
    )


async def delete_devices(db: Db, user_id: UUID) -> None:
    await db.execute("DELETE FROM push_subscriptions WHERE user_id = $1", user_id)


async def prune_devices(db: Db) -> int:
    """Delete devices whose owner's tokens were revoked after that, a bounded number; returns how many."""
    return await db.fetchval(
        "WITH ended AS (SELECT s.id FROM push_subscriptions s JOIN users u ON u.id = s.user_id"
        "              WHERE u.tokens_valid_after > s.granted_at LIMIT $1 FOR UPDATE OF s SKIP LOCKED),"
        " deleted AS (DELETE FROM push_subscriptions s USING ended e WHERE s.id = e.id RETURNING 1)"
        " SELECT count(*) FROM deleted",
        PRUNED_AT_ONCE,
    )
