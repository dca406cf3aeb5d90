"""The rows of rides and their steps.

Every change of a ride, its offers or its attempts locks the ride's row first. What is read after that is true
until the commit, so the decision and the change see the same ride.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict
from uuid import UUID

import msgspec

from catraca.domains.communities import Prices
from catraca.domains.people import UserId
from catraca.domains.rides.model import Actor, Ride, RideId, Status
from catraca.platform.database import Db, Row
from catraca.platform.database.timers import TimerKind

# A ride has one timer: for its first offer that expires, for the end of its search, or, after its start, for
# the time when it takes too long.
RIDE_DUE = TimerKind("rides.due")
COLUMNS = (
    "id, passenger_id, type, community_id, community_version, tier, tariff, asked_price_cents,"
    " confirmation_id, status, round, version, accepted_driver_id, accepted_at, pickup_lat, pickup_lon,"
    " pickup_address, dropoff_lat, dropoff_lon, dropoff_address, distance_meters, duration_seconds,"
    " estimated_fare_cents, final_fare_cents, reported_meters, charged_meters, created_at, updated_at,"
    " deadline_at, arrived_at, started_at, completed_at, canceled_at, canceled_by, cancel_reason"
)
RIDES = "SELECT " + COLUMNS + " FROM rides"  # noqa: S608 - constants only


class RideChange(TypedDict, total=False):
    """Columns that a move sets beside the status."""

    round: int
    accepted_driver_id: UserId | None
    accepted_at: datetime | None
    arrived_at: datetime | None
    final_fare_cents: int
    reported_meters: int
    charged_meters: int
    canceled_by: Actor
    cancel_reason: str
    cancel_note: str | None


# Columns that a move sets to the database's time.
Stamp = Literal["arrived_at", "started_at", "completed_at", "canceled_at"]


async def read_ride(db: Db, ride_id: RideId) -> Ride | None:
    row = await db.fetchrow(f"{RIDES} WHERE id = $1", ride_id)
    return None if row is None else to_ride(row)


async def lock_ride(db: Db, ride_id: RideId) -> Ride | None:
    """Lock the ride until the transaction ends; wait for another transaction that has it locked."""
    row = await db.fetchrow(f"{RIDES} WHERE id = $1 FOR NO KEY UPDATE", ride_id)
    return None if row is None else to_ride(row)


async def lock_rides_at_once(db: Db, ride_ids: Iterable[UUID]) -> list[Ride]:
    """Lock those of these rides that no other transaction has locked; return them. Never waits."""
    rows = await db.fetch(
        f"{RIDES} WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED", list(set(ride_ids))
    )
    return [to_ride(row) for row in rows]


async def lock_unlocked_rides(db: Db, ride_ids: Iterable[UUID]) -> set[UUID]:
    """Lock those of these rides that no other transaction has locked; return their ids."""
    rows = await db.fetch(
        "SELECT id FROM rides WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED",
        list(set(ride_ids)),
    )
    return {row["id"] for row in rows}


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
    search_timeout: timedelta | None = None,
    change: RideChange | None = None,
) -> Ride:
    """Set the status of a locked ride, and insert the step; `news` is the routing key of the step's event."""
    (moved,) = await move_rides(
        db,
        [ride],
        to,
        actor=actor,
        actor_id=actor_id,
        news=news,
        reason=reason,
        stamp=stamp,
        search_timeout=search_timeout,
        change=change,
    )
    return moved


async def move_rides(
    db: Db,
    rides: Sequence[Ride],
    to: Status,
    *,
    actor: Actor,
    actor_id: UUID | None,
    news: str,
    reason: str | None = None,
    stamp: Stamp | None = None,
    search_timeout: timedelta | None = None,
    change: RideChange | None = None,
) -> list[Ride]:
    """The same for several locked rides; return them in the same order."""
    if not rides:
        return []
    values = list((change or {}).values())
    assignments = [f"{column} = ${number}" for number, column in enumerate(change or {}, start=10)]
    if stamp is not None:
        assignments.append(f"{stamp} = moment.at")
    rows = await db.fetch(
        # One moment for the rides and their steps.
        f"""
        WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at),
        ride AS (
          UPDATE rides SET {", ".join(["status = $4", *assignments])}, version = version + 1,
            updated_at = moment.at, deadline_at = coalesce(moment.at + $9::interval, deadline_at)
          FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS known (ride_id, last_version, last_status)
            CROSS JOIN moment
          WHERE id = ride_id AND version = last_version AND status = last_status
          RETURNING {COLUMNS}, last_status),
        step AS (
          INSERT INTO ride_events
            (ride_id, seq, from_status, to_status, round, at, actor, actor_id, reason, news)
          SELECT id, version, last_status, status, round, updated_at, $5, $6, $7, $8 FROM ride)
        SELECT {COLUMNS} FROM ride
        """,  # noqa: S608 - our own columns
        [ride.id for ride in rides],
        [ride.version for ride in rides],
        [ride.status for ride in rides],
        to,
        actor,
        actor_id,
        reason,
        news,
        search_timeout,
        *values,
    )
    moved = {row["id"]: to_ride(row) for row in rows}
    assert len(moved) == len(rides), "the rides are locked while they are moved"
    return [moved[ride.id] for ride in rides]


async def seconds_since_start(db: Db, ride_id: RideId) -> int:
    """Return the whole seconds since the start, rounded down."""
    return await db.fetchval(
        "SELECT greatest(0, floor(extract(epoch FROM clock_timestamp() - started_at)))::integer"
        " FROM rides WHERE id = $1",
        ride_id,
    )


def to_ride(row: Row) -> Ride:
    columns = dict(row)
    tariff = columns.pop("tariff")
    return Ride(**columns, prices=None if tariff is None else msgspec.json.decode(tariff, type=Prices))
