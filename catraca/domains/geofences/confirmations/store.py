"""Every statement on ride_confirmations. A transaction that uses one locks its row and creates the ride."""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from catraca.domains.communities import Community, Tier
from catraca.domains.geofences.model import (
    CommunityRequest,
    Confirmation,
    ConfirmationId,
    read_request,
    write_request,
)
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.platform.database import Db, Row
from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.database.retention import prune_rows
from catraca.platform.erasure import rounded_places

COLUMNS = (
    "id, passenger_id, asked, community_id, community_version, tier, created_at, expires_at, used_at, ride_id"
)

# After that, an expired token is answered like an unknown one.
KEPT_FOR = timedelta(days=1)


class OpenConfirmation(NamedTuple):
    confirmation: Confirmation
    is_new: bool
    # Past its time, and not yet marked as expired.
    is_overdue: bool


async def insert_confirmation(
    db: Db,
    confirmation_id: ConfirmationId,
    request: CommunityRequest,
    *,
    passenger_id: UserId,
    token_hash: bytes,
    community: Community,
    tier: Tier,
    ttl: timedelta,
) -> OpenConfirmation:
    """The open confirmation of this request, locked. A request has one at a time."""
    row = await db.fetchrow(
        "INSERT INTO ride_confirmations AS c (id, passenger_id, token_hash, asked, asked_hash, community_id,"  # noqa: S608
        "   community_version, tier, expires_at)"
        " VALUES ($1, $2, $3, $4::jsonb, $5, $6, $7, $8, clock_timestamp() + $9::interval)"
        " ON CONFLICT (passenger_id, asked_hash) WHERE used_at IS NULL AND expired_at IS NULL"
        # Changes nothing: it locks and returns the existing row.
        " DO UPDATE SET tier = c.tier"
        f" RETURNING {COLUMNS}, expires_at <= clock_timestamp() AS is_overdue",
        confirmation_id,
        passenger_id,
        token_hash,
        write_request(request),
        request.digest(),
        community.id,
        community.version,
        tier,
        ttl,
    )
    assert row is not None
    columns = dict(row)
    is_overdue = columns.pop("is_overdue")
    return OpenConfirmation(_confirmation(columns), columns["id"] == confirmation_id, is_overdue)


_USE = (
    "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at)"
    " UPDATE ride_confirmations SET used_at = moment.at, ride_id = $3 FROM moment"
    " WHERE passenger_id = $1 AND used_at IS NULL AND expired_at IS NULL AND expires_at > moment.at"
)


async def use_by_token(
    db: Db, token_hash: bytes, fields: Mapping[str, object], *, passenger_id: UserId, ride_id: RideId
) -> Confirmation | None:
    """Use the confirmation for this ride if it is unused, not expired, and of a request with these fields.

    Returns None if it is not. A concurrent transaction waits until this one ends, and then finds it used.
    """
    row = await db.fetchrow(
        f"{_USE} AND token_hash = $2 AND asked @> $4::jsonb RETURNING {COLUMNS}",
        passenger_id,
        token_hash,
        ride_id,
        msgspec.json.encode(fields).decode(),
    )
    return None if row is None else _confirmation(row)


async def use_by_request(
    db: Db, request: CommunityRequest, *, passenger_id: UserId, ride_id: RideId
) -> Confirmation | None:
    """Like `use_by_token`, for the open confirmation of this request."""
    row = await db.fetchrow(
        f"{_USE} AND asked_hash = $2 RETURNING {COLUMNS}", passenger_id, request.digest(), ride_id
    )
    return None if row is None else _confirmation(row)


async def read_after_lock(db: Db, token_hash: bytes, *, passenger_id: UserId) -> Confirmation | None:
    """The confirmation, read after a transaction that is using it has ended."""
    row = await db.fetchrow(
        f"SELECT {COLUMNS} FROM ride_confirmations"  # noqa: S608
        " WHERE passenger_id = $1 AND token_hash = $2 FOR SHARE",
        passenger_id,
        token_hash,
    )
    return None if row is None else _confirmation(row)


async def expire(db: Db, confirmation_id: UUID) -> Confirmation | None:
    """Mark a confirmation as expired; None if it is used, marked before, or not past its time."""
    row = await db.fetchrow(
        "UPDATE ride_confirmations SET expired_at = clock_timestamp() WHERE id = $1 AND used_at IS NULL"  # noqa: S608
        f" AND expired_at IS NULL AND expires_at <= clock_timestamp() RETURNING {COLUMNS}",
        confirmation_id,
    )
    return None if row is None else _confirmation(row)


async def prune_confirmations(db: Db) -> int:
    """Delete a bounded number that expired unused a day ago. Used ones stay, for late repeats."""
    return await prune_rows(db, "ride_confirmations", aged_by="expired_at", older_than=KEPT_FOR)


async def confirmations_of(db: Db, passenger_id: UserId, *, limit: int = 1000) -> list[Confirmation]:
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM ride_confirmations WHERE passenger_id = $1"  # noqa: S608
        " ORDER BY created_at DESC LIMIT $2",
        passenger_id,
        limit,
    )
    return [_confirmation(row) for row in rows]


async def erase(db: Db, passenger_id: UserId) -> None:
    """Delete unused confirmations; remove addresses from used ones, and round places, as with rides.

    The request's digest is replaced, because an address could be guessed from it.
    """
    await db.execute(
        "DELETE FROM ride_confirmations WHERE passenger_id = $1 AND used_at IS NULL", passenger_id
    )
    await db.execute(
        "UPDATE ride_confirmations"
        " SET asked = asked - '{origin,destination}'::text[], asked_hash = token_hash"
        " WHERE passenger_id = $1",
        passenger_id,
    )
    rows = await db.fetch(
        "SELECT id, asked::text AS asked FROM ride_confirmations WHERE passenger_id = $1", passenger_id
    )
    await db.execute(
        "UPDATE ride_confirmations c SET asked = rounded.asked"
        " FROM unnest($1::uuid[], $2::jsonb[]) AS rounded (id, asked) WHERE c.id = rounded.id",
        [row["id"] for row in rows],
        [rounded_places(row["asked"].encode()).decode() for row in rows],
    )


def _confirmation(row: Row) -> Confirmation:
    columns = dict(row)
    columns["asked"] = read_request(columns["asked"])
    return Confirmation(**columns)


_EVENTS = (
    "SELECT aggregate_id FROM outbox WHERE routing_key = 'ride.confirmation_expired' AND queue IS NULL"  # noqa: S608
    " UNION ALL (SELECT aggregate_id FROM outbox_sent"
    "   WHERE routing_key = 'ride.confirmation_expired' AND queue IS NULL"
    "     AND sent_at > clock_timestamp() - interval '1 day'"
    f"  ORDER BY sent_at DESC LIMIT {CHECKED_EVENTS})"
)

INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=7,
        name="rides and confirmations name each other",
        sentence="A confirmation and the ride created from it refer to each other.",
        query="SELECT c.id FROM ride_confirmations c LEFT JOIN rides r ON r.confirmation_id = c.id"
        " WHERE c.ride_id IS DISTINCT FROM r.id",
    ),
    Invariant(
        number=8,
        name="expired confirmations are published",
        sentence="Every expired confirmation has exactly one event, and no other confirmation has one.",
        query=f"WITH published AS (SELECT aggregate_id, count(*) FROM ({_EVENTS}) AS e GROUP BY 1)"  # noqa: S608
        " SELECT c.id FROM ride_confirmations c LEFT JOIN published p ON p.aggregate_id = c.id"
        " WHERE p.count > CASE WHEN c.expired_at IS NULL THEN 0 ELSE 1 END"
        "   OR p.count IS NULL AND c.expired_at > clock_timestamp() - interval '23 hours'"
        f"    AND (SELECT count(*) FROM published) < {CHECKED_EVENTS // 2}",
    ),
    ConstraintHeld(
        name="one ride a confirmation",
        sentence="A confirmation creates one ride at most.",
        table="rides",
        constraint="one_ride_a_confirmation",
        definition=("UNIQUE", "confirmation_id"),
    ),
    ConstraintHeld(
        name="confirmations name their ride",
        sentence="A used confirmation has a ride of the same passenger.",
        table="ride_confirmations",
        constraint="confirmations_name_their_ride",
        definition=("ride_id, id, passenger_id", "rides(id, confirmation_id, passenger_id)"),
    ),
    ConstraintHeld(
        name="rides name their confirmation",
        sentence="A ride's confirmation is of the same passenger and was used for this ride.",
        table="rides",
        constraint="rides_name_their_confirmation",
        definition=("confirmation_id, passenger_id, id", "ride_confirmations(id, passenger_id, ride_id)"),
    ),
    ConstraintHeld(
        name="rides beyond the fence were confirmed",
        sentence="A ride with drivers from elsewhere has a confirmation.",
        table="rides",
        constraint="rides_beyond_the_fence_were_confirmed",
        definition=("home", "confirmation_id IS NOT NULL"),
    ),
)
