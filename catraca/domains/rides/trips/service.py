"""From the acceptance to the end: arrive, start, complete; and cancel, in any open or driven state."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.fares import Tariff, fare_cents, tariff_with
from catraca.domains.people import UserId
from catraca.domains.rides.errors import DistanceMissing, RideNotFound
from catraca.domains.rides.flags.service import flag_ride
from catraca.domains.rides.model import Actor, Ride, RideId, Status, TripLimits, parties
from catraca.domains.rides.search.service import close_ride, update_timer
from catraca.domains.rides.search.store import release_driver
from catraca.domains.rides.store import (
    RIDE_DUE,
    RideChange,
    Stamp,
    lock_ride,
    move_ride,
    seconds_since_start,
)
from catraca.domains.rides.tracks.store import take_track
from catraca.domains.rides.trips.model import (
    CancelReason,
    farthest_meters,
    shortest_seconds,
    status_after_cancel,
)
from catraca.events import RideArriving, RideCompleted, RideReassigning, RideStarted
from catraca.events.rides import Point
from catraca.platform.database import Db, audit, outbox, timers
from catraca.platform.geo import Trip


async def arrive(db: Db, ride_id: RideId, *, by: UserId) -> None:
    """The driver is at the pickup. Safe to repeat until the ride starts."""
    ride = await _lock_own(db, ride_id, by)
    if ride.status == "ARRIVING":
        return
    ride = await _move(db, ride, "ARRIVING", news="ride.arriving", stamp="arrived_at")
    await outbox.record(db, RideArriving(**parties(ride), arrived_at=ride.updated_at))


async def start(db: Db, ride_id: RideId, *, by: UserId, limits: TripLimits) -> None:
    """The passenger is in the car. Safe to repeat until the ride's end."""
    ride = await _lock_own(db, ride_id, by)
    if ride.status == "STARTED":
        return
    ride = await _move(db, ride, "STARTED", news="ride.started", stamp="started_at")
    await outbox.record(db, RideStarted(**parties(ride), started_at=ride.updated_at))
    await timers.set_timer(db, RIDE_DUE, ride.id, due_at=ride.updated_at + limits.longest)


async def complete(
    db: Db,
    ride_id: RideId,
    *,
    by: UserId,
    tariff: Tariff,
    limits: TripLimits,
    distance_meters: int | None = None,
) -> None:
    """Complete the ride and release the driver. The fare is the estimate, if there is one.

    Else it is computed from the distance that the driver reports, as far as it is plausible. A ride that is
    not plausible is flagged.
    """
    ride = await _lock_own(db, ride_id, by)
    ride.check_move("COMPLETED")
    seconds = await seconds_since_start(db, ride.id)
    if distance_meters is not None and ride.distance_meters is None:
        change = await _measured_fare(db, ride, distance_meters, seconds, tariff=tariff, limits=limits)
    elif ride.estimated_fare_cents is not None:
        change = RideChange(final_fare_cents=ride.estimated_fare_cents)
    else:
        raise DistanceMissing
    await finish_ride(db, ride, change, actor="driver", by=by)
    await _flag_implausible(db, ride, change, seconds, limits=limits)


async def _measured_fare(
    db: Db, ride: Ride, reported_meters: int, seconds: int, *, tariff: Tariff, limits: TripLimits
) -> RideChange:
    """Compute the fare of a locked ride without a destination from the plausible part of the distance."""
    farthest = farthest_meters(seconds, await take_track(db, ride.id), limits)
    trip = Trip(min(reported_meters, farthest), min(seconds, limits.longest_seconds))
    return {
        "final_fare_cents": fare_cents(tariff_with(ride.prices, tariff), trip),
        "reported_meters": reported_meters,
        "charged_meters": trip.distance_meters,
    }


async def _flag_implausible(
    db: Db, ride: Ride, change: RideChange, seconds: int, *, limits: TripLimits
) -> None:
    reported, charged = change.get("reported_meters", 0), change.get("charged_meters", 0)
    if reported > charged:
        await flag_ride(db, ride.id, "distance_cut", measured=reported, allowed=charged)
    shortest = shortest_seconds(ride.distance_meters or 0, limits)
    if seconds < shortest:
        await flag_ride(db, ride.id, "ended_too_soon", measured=seconds, allowed=shortest)


async def finish_ride(
    db: Db, ride: Ride, change: RideChange, *, actor: Actor, by: UUID, reason: str | None = None
) -> Ride:
    """Move a locked started ride to `COMPLETED` with its fare, and release the driver."""
    await take_track(db, ride.id)
    ride = await move_ride(
        db,
        ride,
        "COMPLETED",
        actor=actor,
        actor_id=by,
        reason=reason,
        news="ride.completed",
        stamp="completed_at",
        change=change,
    )
    await release_driver(db, ride.id)
    assert ride.final_fare_cents is not None, "a completed ride has a fare"
    await outbox.record(
        db,
        RideCompleted(
            **parties(ride),
            fare_cents=ride.final_fare_cents,
            completed_at=ride.updated_at,
            completed_by=actor,
        ),
    )
    await timers.cancel_timer(db, RIDE_DUE, ride.id)
    return ride


async def _move(db: Db, ride: Ride, to: Status, *, news: str, stamp: Stamp) -> Ride:
    ride.check_move(to)
    return await move_ride(
        db, ride, to, actor="driver", actor_id=ride.accepted_driver_id, news=news, stamp=stamp
    )


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
