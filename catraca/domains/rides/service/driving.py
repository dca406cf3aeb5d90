"""From the acceptance to the end: arrive, start, complete; and cancel, from wherever it may be."""

from datetime import timedelta
from typing import TypedDict
from uuid import UUID

from catraca.domains.fares import Tariff, fare_cents, tariff_with
from catraca.domains.people import UserId
from catraca.domains.rides.errors import DistanceMissing, RideNotFound
from catraca.domains.rides.model import (
    Actor,
    CancelReason,
    Ride,
    RideChange,
    RideId,
    Stamp,
    Status,
    cancel_leads_to,
)
from catraca.domains.rides.service import telling
from catraca.domains.rides.service.due import set_due
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.events import RideArriving, RideCompleted, RideReassigning, RideStarted
from catraca.platform.database import Db, audit, outbox
from catraca.platform.geo import Trip


async def arrive(db: Db, ride_id: RideId, *, by: UserId) -> None:
    """The driver is at the point of departure."""
    ride = await _hold_own(db, ride_id, by)
    ride = await _drive_on(db, ride, "ARRIVING", news="ride.arriving", stamp="arrived_at")
    await outbox.record(db, RideArriving(**_parties(ride), arrived_at=ride.updated_at))


async def start(db: Db, ride_id: RideId, *, by: UserId) -> None:
    """The passenger is in the car."""
    ride = await _hold_own(db, ride_id, by)
    ride = await _drive_on(db, ride, "STARTED", news="ride.started", stamp="started_at")
    await outbox.record(db, RideStarted(**_parties(ride), started_at=ride.updated_at))


async def complete(
    db: Db, ride_id: RideId, *, by: UserId, tariff: Tariff, distance_meters: int | None = None
) -> None:
    """The ride is over, and the driver free. The fare is the one quoted, if there was one."""
    ride = await _hold_own(db, ride_id, by)
    ride.demand_move("COMPLETED")
    fare = ride.estimated_fare_cents
    if distance_meters is not None and ride.distance_meters is None:
        driven = Trip(distance_meters, await store.seconds_since_start(db, ride.id))
        fare = fare_cents(tariff_with(ride.prices, tariff), driven)
    if fare is None:
        raise DistanceMissing
    ride = await _drive_on(
        db,
        ride,
        "COMPLETED",
        news="ride.completed",
        stamp="completed_at",
        change={"final_fare_cents": fare},
    )
    await offer_store.release_driver(db, ride.id)
    await outbox.record(db, RideCompleted(**_parties(ride), fare_cents=fare, completed_at=ride.updated_at))


async def _drive_on(
    db: Db, ride: Ride, to: Status, *, news: str, stamp: Stamp, change: RideChange | None = None
) -> Ride:
    """The next step of a ride, by its driver."""
    ride.demand_move(to)
    return await store.move_ride(
        db,
        ride,
        to,
        actor="driver",
        actor_id=ride.accepted_driver_id,
        news=news,
        stamp=stamp,
        change=change,
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


async def _hold_own(db: Db, ride_id: RideId, driver_id: UserId) -> Ride:
    """The ride, held; to anybody but its driver there is none."""
    ride = await store.lock_ride(db, ride_id)
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
    search: timedelta,
) -> Ride:
    """End the ride; or, when its driver gives it up, look for another driver during `search`."""
    ride = await store.lock_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    actor = _actor(ride, by, is_operator=is_operator)
    if cancel_leads_to(ride, by=actor, reason=reason) == "SEARCHING":
        ride = await _give_up(db, ride, by=by, reason=reason, search=search)
    else:
        ride = await _call_off(db, ride, actor=actor, by=by, reason=reason, note=note)
    if actor == "operator":
        await audit.record(
            db,
            actor_id=by,
            action="ride.canceled",
            subject_kind="ride",
            subject_id=ride.id,
            data={"reason": reason},
        )
    await set_due(db, ride)
    return ride


def _actor(ride: Ride, caller_id: UUID, *, is_operator: bool) -> Actor:
    if caller_id == ride.passenger_id:
        return "passenger"
    if caller_id == ride.accepted_driver_id:
        return "driver"
    if is_operator:
        return "operator"
    raise RideNotFound


async def _give_up(db: Db, ride: Ride, *, by: UUID, reason: CancelReason, search: timedelta) -> Ride:
    await offer_store.release_driver(db, ride.id, reason=reason)
    ride = await store.move_ride(
        db,
        ride,
        "SEARCHING",
        actor="driver",
        actor_id=by,
        reason=reason,
        news="ride.reassigning",
        search=search,
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
            pickup=telling.pickup_of(ride),
            deadline_at=ride.deadline_at,
        ),
    )
    return ride


async def _call_off(
    db: Db, ride: Ride, *, actor: Actor, by: UUID, reason: CancelReason, note: str | None
) -> Ride:
    lost = await offer_store.cancel_live_offers(db, ride.id, reason="ride_canceled")
    await offer_store.release_driver(db, ride.id, reason="ride_canceled")
    ride = await store.move_ride(
        db,
        ride,
        "CANCELED",
        actor=actor,
        actor_id=by,
        reason=reason,
        news="ride.cancelled",
        stamp="canceled_at",
        change={"canceled_by": actor, "cancel_reason": reason, "cancel_note": note},
    )
    await outbox.record(
        db,
        telling.cancellation(ride, by=actor, reason=reason),
        *telling.lost_offers(lost, "ride_canceled"),
    )
    return ride
