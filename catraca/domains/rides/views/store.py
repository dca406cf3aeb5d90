"""Queries for rides, by party, by status, by driver."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Actor, Offer, Ride, RideId, Status
from catraca.domains.rides.search.store import OFFERS
from catraca.domains.rides.store import RIDES, to_ride
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row of a ride's history; `news` is the routing key of its event."""

    seq: int
    from_status: Status | None
    to_status: Status
    round: int
    at: datetime
    actor: Actor
    actor_id: UUID | None
    reason: str | None
    news: str


async def read_rides(db: Db, ride_ids: Iterable[RideId]) -> dict[RideId, Ride]:
    rows = await db.fetch(f"{RIDES} WHERE id = ANY ($1::uuid[])", list(ride_ids))
    return {row["id"]: to_ride(row) for row in rows}


@dataclass(frozen=True, slots=True)
class DrivenRide:
    passenger_id: UserId
    accepted_at: datetime


async def driven_rides(db: Db, pairs: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], DrivenRide]:
    """Of these pairs of ride and driver, return the rides that this driver is driving now."""
    rows = await db.fetch(
        """
        SELECT r.id, r.accepted_driver_id, r.passenger_id, r.accepted_at
        FROM unnest($1::uuid[], $2::uuid[]) AS named (ride_id, driver_id)
        JOIN rides r ON r.id = named.ride_id AND r.accepted_driver_id = named.driver_id
        WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')
        """,
        [ride_id for ride_id, _ in pairs],
        [driver_id for _, driver_id in pairs],
    )
    return {
        (row["id"], row["accepted_driver_id"]): DrivenRide(row["passenger_id"], row["accepted_at"])
        for row in rows
    }


async def active_ride_of(db: Db, driver_id: UserId) -> Ride | None:
    """Return the ride that the driver has accepted and not finished."""
    row = await db.fetchrow(
        f"{RIDES} WHERE accepted_driver_id = $1 AND status IN ('ACCEPTED', 'ARRIVING', 'STARTED')",
        driver_id,
    )
    return None if row is None else to_ride(row)


async def rides_of(
    db: Db, party_id: UserId, *, statuses: Sequence[Status], before: UUID | None, limit: int
) -> list[Ride]:
    """Return rides of this passenger or driver before `before`, newest first."""
    own = (
        "SELECT id FROM rides WHERE {} = $1 AND status = ANY ($2) AND ($3::uuid IS NULL OR id < $3)"
        " ORDER BY id DESC LIMIT $4"
    )
    rows = await db.fetch(
        f"{RIDES} WHERE id IN (({own.format('passenger_id')})"
        f" UNION ({own.format('accepted_driver_id')})) ORDER BY id DESC LIMIT $4",
        party_id,
        statuses,
        before,
        limit,
    )
    return [to_ride(row) for row in rows]


async def all_rides(db: Db, *, statuses: Sequence[Status], before: UUID | None, limit: int) -> list[Ride]:
    """Return rides before `before`, newest first."""
    rows = await db.fetch(
        f"{RIDES} WHERE id IN (SELECT found.id FROM unnest($1::text[]) AS wanted CROSS JOIN LATERAL ("  # noqa: S608 - constants only
        "   SELECT id FROM rides WHERE status = wanted AND ($2::uuid IS NULL OR id < $2)"
        "   ORDER BY id DESC LIMIT $3) AS found)"
        " ORDER BY id DESC LIMIT $3",
        statuses,
        before,
        limit,
    )
    return [to_ride(row) for row in rows]


async def read_steps(db: Db, ride_id: RideId, *, limit: int) -> list[Step]:
    rows = await db.fetch(
        "SELECT seq, from_status, to_status, round, at, actor, actor_id, reason, news FROM ride_events"
        " WHERE ride_id = $1 ORDER BY seq LIMIT $2",
        ride_id,
        limit,
    )
    return [Step(**row) for row in rows]


async def first_offers(db: Db, ride_id: RideId, *, limit: int) -> list[Offer]:
    """Return the ride's offers of all rounds, in order."""
    rows = await db.fetch(f"{OFFERS} WHERE ride_id = $1 ORDER BY attempt LIMIT $2", ride_id, limit)
    return [Offer(**row) for row in rows]
