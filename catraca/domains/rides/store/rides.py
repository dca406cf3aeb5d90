"""Every statement on rides and their steps.

Whoever changes a ride, its offers or its attempts holds the ride's row first. What is read after that is
true until the commit, so the decision and the change see the same ride.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from catraca.domains.communities import Prices
from catraca.domains.people import UserId
from catraca.domains.rides.model import (
    Actor,
    Belonging,
    Ride,
    RideChange,
    RideId,
    RideRequest,
    Stamp,
    Status,
    Step,
)
from catraca.platform.database import Db, Row
from catraca.platform.geo import Trip

COLUMNS = (
    "id, passenger_id, type, community_id, community_version, tier, tariff, asked_price_cents,"
    " confirmation_id, status, round, version, accepted_driver_id, accepted_at, pickup_lat, pickup_lon,"
    " pickup_address, dropoff_lat, dropoff_lon, dropoff_address, distance_meters, duration_seconds,"
    " estimated_fare_cents, final_fare_cents, created_at, updated_at, deadline_at, arrived_at, started_at,"
    " completed_at, canceled_at, canceled_by, cancel_reason"
)
RIDES = "SELECT " + COLUMNS + " FROM rides"  # noqa: S608 - our own words
UNFINISHED = "status IN ('REQUESTED', 'SEARCHING', 'OFFERED', 'ACCEPTED', 'ARRIVING', 'STARTED')"


async def insert_ride(
    db: Db,
    ride_id: RideId,
    asked: RideRequest,
    *,
    passenger_id: UserId,
    trip: Trip | None,
    fare_cents: int | None,
    search: timedelta,
    belongs: Belonging | None = None,
    asked_price_cents: int | None = None,
    confirmation_id: UUID | None = None,
) -> Ride | None:
    """The new ride with its first step; None when the passenger has one that is not finished."""
    row = await db.fetchrow(
        "WITH ride AS ("  # noqa: S608 - our own words
        "   INSERT INTO rides (id, passenger_id, pickup_lat, pickup_lon, pickup_address,"
        "     dropoff_lat, dropoff_lon, dropoff_address, distance_meters, duration_seconds,"
        "     estimated_fare_cents, deadline_at, type, community_id, community_version, tier, tariff,"
        "     asked_price_cents, confirmation_id)"
        "   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp() + $12::interval,"
        "     CASE WHEN $13::uuid IS NULL THEN 'normal' ELSE 'comunidade' END, $13, $14, $15, $16::jsonb,"
        "     $17, $18)"
        f"  ON CONFLICT (passenger_id) WHERE {UNFINISHED} DO NOTHING RETURNING {COLUMNS}),"
        " step AS ("
        "   INSERT INTO ride_events (ride_id, seq, to_status, round, at, actor, actor_id, news)"
        "   SELECT id, version, status, round, created_at, 'passenger', passenger_id, 'ride.requested'"
        "   FROM ride)"
        " SELECT * FROM ride",
        ride_id,
        passenger_id,
        asked.pickup.lat,
        asked.pickup.lon,
        asked.pickup_address,
        asked.dropoff and asked.dropoff.lat,
        asked.dropoff and asked.dropoff.lon,
        asked.dropoff_address,
        trip and trip.distance_meters,
        trip and trip.duration_seconds,
        fare_cents,
        search,
        belongs and belongs.community_id,
        belongs and belongs.community_version,
        belongs and belongs.tier,
        msgspec.json.encode(belongs.prices).decode() if belongs and belongs.prices else None,
        asked_price_cents,
        confirmation_id,
    )
    return None if row is None else _ride(row)


async def unfinished_ride_of(db: Db, passenger_id: UserId) -> RideId | None:
    return await db.fetchval(
        "SELECT id FROM rides WHERE passenger_id = $1 AND " + UNFINISHED,  # noqa: S608 - our own words
        passenger_id,
    )


async def read_ride(db: Db, ride_id: RideId) -> Ride | None:
    row = await db.fetchrow(f"{RIDES} WHERE id = $1", ride_id)
    return None if row is None else _ride(row)


async def get_rides(db: Db, ride_ids: Iterable[RideId]) -> dict[RideId, Ride]:
    rows = await db.fetch(f"{RIDES} WHERE id = ANY ($1::uuid[])", list(ride_ids))
    return {row["id"]: _ride(row) for row in rows}


async def read_lately(db: Db, ride_id: RideId, *, ended_within: timedelta) -> Ride | None:
    """The ride, unless it ended longer ago than that."""
    row = await db.fetchrow(
        f"{RIDES} WHERE id = $1 AND clock_timestamp() - $2::interval < coalesce(completed_at, canceled_at,"
        "   CASE status WHEN 'EXPIRED' THEN updated_at ELSE 'infinity' END)",
        ride_id,
        ended_within,
    )
    return None if row is None else _ride(row)


@dataclass(frozen=True, slots=True)
class Driven:
    """A ride under way: whose it is, and since when its driver has it."""

    passenger_id: UserId
    accepted_at: datetime


async def who_is_driven(db: Db, drivers: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], Driven]:
    """Of these rides, each with a driver, those that are under way with that very driver."""
    rows = await db.fetch(
        "SELECT r.id, r.accepted_driver_id, r.passenger_id, r.accepted_at"
        " FROM unnest($1::uuid[], $2::uuid[]) AS named (ride_id, driver_id)"
        " JOIN rides r ON r.id = named.ride_id AND r.accepted_driver_id = named.driver_id"
        " WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')",
        [ride_id for ride_id, _ in drivers],
        [driver_id for _, driver_id in drivers],
    )
    return {
        (row["id"], row["accepted_driver_id"]): Driven(row["passenger_id"], row["accepted_at"])
        for row in rows
    }


async def active_ride_of(db: Db, driver_id: UserId) -> Ride | None:
    """The ride a driver has accepted and not finished."""
    row = await db.fetchrow(
        f"{RIDES} WHERE accepted_driver_id = $1 AND status IN ('ACCEPTED', 'ARRIVING', 'STARTED')",
        driver_id,
    )
    return None if row is None else _ride(row)


async def rides_of(
    db: Db, party_id: UserId, *, statuses: Sequence[Status], before: UUID | None, limit: int
) -> list[Ride]:
    """A person's own, as passenger or driver, the newest first, from the one before `before`."""
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
    return [_ride(row) for row in rows]


async def all_rides(db: Db, *, statuses: Sequence[Status], before: UUID | None, limit: int) -> list[Ride]:
    """Everybody's, the newest first, from the one before `before`."""
    rows = await db.fetch(
        f"{RIDES} WHERE id IN (SELECT found.id FROM unnest($1::text[]) AS wanted CROSS JOIN LATERAL ("  # noqa: S608 - our own words
        "   SELECT id FROM rides WHERE status = wanted AND ($2::uuid IS NULL OR id < $2)"
        "   ORDER BY id DESC LIMIT $3) AS found)"
        " ORDER BY id DESC LIMIT $3",
        statuses,
        before,
        limit,
    )
    return [_ride(row) for row in rows]


async def lock_ride(db: Db, ride_id: RideId) -> Ride | None:
    """Hold the ride, its offers and its attempts against other changes until the transaction ends."""
    row = await db.fetchrow(f"{RIDES} WHERE id = $1 FOR NO KEY UPDATE", ride_id)
    return None if row is None else _ride(row)


async def lock_free_rides(db: Db, ride_ids: Iterable[UUID]) -> set[UUID]:
    """Hold those of these rides that nobody else holds just now."""
    rows = await db.fetch(
        "SELECT id FROM rides WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED",
        list(set(ride_ids)),
    )
    return {row["id"] for row in rows}


async def search_is_over(db: Db, ride_id: RideId, *, for_longer_than: timedelta = timedelta(0)) -> bool:
    return await db.fetchval(
        "SELECT deadline_at + $2::interval <= clock_timestamp() FROM rides WHERE id = $1",
        ride_id,
        for_longer_than,
    )


async def seconds_since_start(db: Db, ride_id: RideId) -> int:
    return await db.fetchval(
        "SELECT greatest(0, extract(epoch FROM clock_timestamp() - started_at))::integer"
        " FROM rides WHERE id = $1",
        ride_id,
    )


async def move_ride(
    db: Db,
    ride: Ride,
    to: Status,
    *,
    actor: Actor,
    actor_id: UUID | None,
    news: str,
    reason: str | None = None,
    stamp: Stamp | None = None,
    search: timedelta | None = None,
    change: RideChange | None = None,
) -> Ride:
    """Take a ride that is held to its next state, and write the step; the guard is its version."""
    values = list((change or {}).values())
    set_them = [f"{column} = ${number}" for number, column in enumerate(change or {}, start=10)]
    if stamp is not None:
        set_them.append(f"{stamp} = moment.at")
    row = await db.fetchrow(
        # One moment, for the ride and for its step.
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at),"  # noqa: S608 - our own columns
        " ride AS ("
        f"  UPDATE rides SET {', '.join(['status = $3', *set_them])}, version = version + 1,"
        "     updated_at = moment.at, deadline_at = coalesce(moment.at + $9::interval, deadline_at)"
        f"  FROM moment WHERE id = $1 AND version = $2 AND status = $4 RETURNING {COLUMNS}),"
        " step AS ("
        "   INSERT INTO ride_events"
        "     (ride_id, seq, from_status, to_status, round, at, actor, actor_id, reason, news)"
        "   SELECT id, version, $4, status, round, updated_at, $5, $6, $7, $8 FROM ride)"
        " SELECT * FROM ride",
        ride.id,
        ride.version,
        to,
        ride.status,
        actor,
        actor_id,
        reason,
        news,
        search,
        *values,
    )
    assert row is not None, "a ride is held while it is moved"
    return _ride(row)


async def read_steps(db: Db, ride_id: RideId, *, limit: int) -> list[Step]:
    rows = await db.fetch(
        "SELECT seq, from_status, to_status, round, at, actor, actor_id, reason, news FROM ride_events"
        " WHERE ride_id = $1 ORDER BY seq LIMIT $2",
        ride_id,
        limit,
    )
    return [Step(**row) for row in rows]


async def forget_addresses(db: Db, passenger_id: UserId) -> None:
    """What a person wrote; where the rides went stays, without a name."""
    await db.execute(
        "UPDATE rides SET pickup_address = NULL, dropoff_address = NULL, cancel_note = NULL"
        " WHERE passenger_id = $1",
        passenger_id,
    )


def _ride(row: Row) -> Ride:
    columns = dict(row)
    tariff = columns.pop("tariff")
    return Ride(**columns, prices=None if tariff is None else msgspec.json.decode(tariff, type=Prices))
