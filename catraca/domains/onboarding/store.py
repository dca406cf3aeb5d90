"""Statements on sign-ups."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from catraca.domains.onboarding.model import Rejection, SignUp
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule


async def claim_sign_ups(db: Db, sign_ups: Sequence[SignUp]) -> set[tuple[UUID, UUID]]:
    """Mark sign-ups as handled; returns those that were not handled before.

    The first request with an id wins. Another transaction with the same sign-up waits for this one.
    """
    rows = await db.fetch(
        "INSERT INTO sign_ups (id, request_id)"
        " SELECT id, request_id FROM unnest($1::uuid[], $2::uuid[])"
        "   WITH ORDINALITY AS s (id, request_id, place)"
        # A fixed order, so that two batches with the same sign-ups cannot deadlock.
        " ORDER BY id, place ON CONFLICT (id) DO NOTHING RETURNING id, request_id",
        [sign_up.id for sign_up in sign_ups],
        [sign_up.request_id for sign_up in sign_ups],
    )
    return {(row["id"], row["request_id"]) for row in rows}


async def claim_sign_up(db: Db, sign_up_id: UUID, *, request_id: UUID) -> bool:
    """Like `claim_sign_ups`, by ids only; True if it was not handled before."""
    claimed = await db.fetchval(
        "INSERT INTO sign_ups (id, request_id) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING true",
        sign_up_id,
        request_id,
    )
    return claimed is not None


async def reject_sign_ups(db: Db, reasons: Mapping[UUID, Rejection]) -> None:
    await db.execute(
        "UPDATE sign_ups s SET rejected = r.reason FROM unnest($1::uuid[], $2::text[]) AS r (id, reason)"
        " WHERE s.id = r.id",
        list(reasons),
        list(reasons.values()),
    )


async def read_sign_up(db: Db, sign_up_id: UUID) -> Row | None:
    return await db.fetchrow(
        "SELECT request_id, rejected, handled_at FROM sign_ups WHERE id = $1", sign_up_id
    )


async def forget_request(db: Db, sign_up_id: UUID) -> None:
    """Erase the request id. The row stays, so that a late repeat is not handled again."""
    await db.execute("UPDATE sign_ups SET request_id = NULL WHERE id = $1", sign_up_id)


INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=10,
        name="every accepted sign-up has its user",
        sentence="Every handled sign-up that was not rejected has a user.",
        query="SELECT s.id FROM sign_ups s WHERE s.rejected IS NULL"
        " AND NOT EXISTS (SELECT FROM users u WHERE u.id = s.id)",
    ),
    Invariant(
        number=10,
        name="no rejected sign-up has a user",
        sentence="No sign-up rejected as email_taken or discarded has a user.",
        # With id_taken, the id belongs to an older user.
        query="SELECT s.id FROM sign_ups s JOIN users u ON u.id = s.id"
        " WHERE s.rejected IN ('email_taken', 'discarded')",
    ),
    ConstraintHeld(
        name="one row per sign-up",
        sentence="No sign-up is handled twice.",
        table="sign_ups",
        constraint="sign_ups_pkey",
        definition=("PRIMARY KEY (id)",),
    ),
)
