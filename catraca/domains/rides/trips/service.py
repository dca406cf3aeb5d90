"""From the acceptance to the end: arrive, start, complete; and cancel, in any open or driven state."""

from datetime import timedelta
from typing import TypedDict
from uuid import UUID

from catraca.domains.fares import Tariff, fare_cents, tariff_with
from catraca.domains.people import UserId
from catraca.domains.rides.errors import DistanceMissing, RideNotFound
from catraca.domains.rides.model import Actor, Ride, RideId, Status
from catraca.domains.rides.search.service import close_ride, update_timer
from catraca.domains.rides.search.store import release_driver
from catraca.domains.rides.store import RideChange, Stamp, lock_ride, move_ride, seconds_since_start
from catraca.domains.rides.trips.model import CancelReason, status_after_cancel
from catraca.events import RideArriving, RideCompleted, RideReassigning, RideStarted
from catraca.events.rides import Point
from catraca.platform.database import Db, audit, outbox
from catraca.platform.geo import Trip


async def arrive(db: Db, ride_id: RideId, *, by: UserId) -> None:
    """The driver is at the pickup. Safe to repeat until the ride starts."""
    ride = await _lock_own(db, ride_id, by)
    if ride.status == "ARRIVING":
        return
    ride = await _move(db, ride, "ARRIVING", news="ride.arriving", stamp="arrived_at")
    await outbox.record(db, RideArriving(**_parties(ride), arrived_at=ride.updated_at))


async def start(db: Db, ride_id: RideId, *, by: UserId) -> None:
    """The passenger is in the car. Safe to repeat until the ride's end."""
    ride = await _lock_own(db, ride_id, by)
    if ride.status == "STARTED":
        return
    ride = await _move(db, ride, "STARTED", news="ride.started", stamp="started_at")
    await outbox.record(db, RideStarted(**_parties(ride), started_at=ride.updated_at))


async def complete(
    db: Db, ride_id: RideId, *, by: UserId, tariff: Tariff, distance_meters: int | None = None
) -> None:
    """Complete the ride and release the driver. The fare is the estimate, if there is one."""
    ride = await _lock_own(db, ride_id, by)
    ride.check_move("COMPLETED")
    fare = ride.estimated_fare_cents
    if distance_meters is not None and ride.distance_meters is None:
        trip = Trip(distance_meters, await seconds_since_start(db, ride.id))
        fare = fare_cents(tariff_with(ride.prices, tariff), trip)
    if fare is None:
        raise DistanceMissing
    change: RideChange = {"final_fare_cents": fare}
    ride = await _move(db, ride, "COMPLETED", news="ride.completed", stamp="completed_at", change=change)
    await release_driver(db, ride.id)
    await outbox.record(db, RideCompleted(**_parties(ride), fare_cents=fare, completed_at=ride.updated_at))


async def _move(
    db: Db, ride: Ride, to: Status, *, news: str, stamp: Stamp, change: RideChange | None = None
) -> Ride:
    ride.check_move(to)
    driver_id = ride.accepted_driver_id
    return await move_ride(
        db, ride, to, actor="driver", actor_id=driver_id, news=news, stamp=stamp, change=change
    )


class _Parties(TypedDict):
    ride_id: RideId
    round: int
    rider_id: UserId
    driver_id: UserId


def _parties(ride: Ride) -> _Parties:
    assert ride.accepted_driver_id is not None
    return {
        "ride_id": ride.id,
        "round": ride.round,
        "rider_id": ride.passenger_id,
        "driver_id": ride.accepted_driver_id,
    }


async def _lock_own(db: Db, ride_id: RideId, driver_id: UserId) -> Ride:
    """Lock the ride for its driver; for all others it does not exist."""
    ride = await lock_ride(db, ride_id)
    if ride is None or ride.accepted_driver_id != driver_id:
        raise RideNotFound
    return ride


async def cancel_ride(
    db: Db,
    ride_id: RideId,
    *,
    by: UUID,
    is_operator: bool,
    reason: CancelReason,
    note: str | None = None,
    search_timeout: timedelta,
) -> Ride:
    """End the ride; or, by its driver, start a new search of `search_timeout` for another driver."""
    ride = await lock_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    actor = _actor(ride, by, is_operator=is_operator)
    if status_after_cancel(ride, by=actor, reason=reason) == "SEARCHING":
        ride = await _give_up(db, ride, by=by, reason=reason, search_timeout=search_timeout)
    else:
        ride = await close_ride(
            db,
            ride,
            "CANCELED",
            actor=actor,
            actor_id=by,
            reason=reason,
            offer_reason="ride_canceled",
            note=note,
        )
    if actor == "operator":
        await audit.record(
            db,
            actor_id=by,
            action="ride.canceled",
            subject_kind="ride",
            subject_id=ride.id,
            data={"reason": reason},
        )
    return ride


def _actor(ride: Ride, caller_id: UUID, *, is_operator: bool) -> Actor:
    if caller_id == ride.passenger_id:
        return "passenger"
    if caller_id == ride.accepted_driver_id:
        return "driver"
    if is_operator:
        return "operator"
    raise RideNotFound


async def _give_up(db: Db, ride: Ride, *, by: UUID, reason: CancelReason, search_timeout: timedelta) -> Ride:
    await release_driver(db, ride.id, reason=reason)
    ride = await move_ride(
        db,
        ride,
        "SEARCHING",
        actor="driver",
        actor_id=by,
        reason=reason,
        news="ride.reassigning",
        search_timeout=search_timeout,
        change={
            "round": ride.round + 1,
            "accepted_driver_id": None,
            "accepted_at": None,
            "arrived_at": None,
        },
    )
    await outbox.record(
        db,
        RideReassigning(
            ride_id=ride.id,
            round=ride.round,
            rider_id=ride.passenger_id,
            previous_driver_id=by,
            reason=reason,
            pickup=Point(ride.pickup_lat, ride.pickup_lon),
            deadline_at=ride.deadline_at,
        ),
    )
    await update_timer(db, ride)
    return ride
