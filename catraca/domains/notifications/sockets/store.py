"""SQL on ws_tickets: only digests are stored, and using a ticket deletes it."""

from datetime import datetime, timedelta

from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.database.retention import prune_rows
from catraca.platform.errors import TokenRevoked
from catraca.platform.ids import token_digest


async def insert_ticket(db: Db, ticket: str, principal: Principal, *, lifetime: timedelta) -> datetime:
    """Insert a ticket; return when it expires."""
    return await db.fetchval(
        "INSERT INTO ws_tickets (digest, user_id, roles, token_issued_at, token_expires_at, expires_at)"
        " VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6) RETURNING expires_at",
        token_digest(ticket),
        principal.id,
        sorted(principal.roles),
        principal.issued_at,
        principal.expires_at,
        lifetime,
    )


async def use_ticket(db: Db, ticket: str) -> Principal | None:
    """Delete the ticket; return its principal, or None if it is unknown, used or expired.

    Raises `TokenRevoked` if the token of the ticket was revoked.
    """
    row = await db.fetchrow(
        "DELETE FROM ws_tickets WHERE digest = $1"
        " RETURNING user_id, roles, token_issued_at, token_expires_at,"
        "   expires_at > clock_timestamp() AS is_good, access_holds(user_id, token_issued_at) AS holds",
        token_digest(ticket),
    )
    if row is None or not row["is_good"]:
        return None
    if not row["holds"]:
        raise TokenRevoked
    return Principal(
        id=row["user_id"],
        roles=frozenset(row["roles"]),
        issued_at=row["token_issued_at"],
        expires_at=row["token_expires_at"],
    )


async def prune_tickets(db: Db) -> int:
    return await prune_rows(db, "ws_tickets", aged_by="expires_at")
