"""Make, reject, withdraw and acknowledge offers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.rides.errors import (
    OfferExpired,
    OfferNotReceived,
    RideAlreadyAccepted,
    RideCannotBeRejected,
    RideNotFound,
    RideNotOpen,
)
from catraca.domains.rides.model import Actor, Offer, OfferId, Ride, RideId
from catraca.domains.rides.offers import store
from catraca.domains.rides.offers.model import BusyDriver, MadeOffers, OfferPlan, RejectReason, SkipReason
from catraca.domains.rides.search.model import LockedRide, RidesCollide
from catraca.domains.rides.search.service import (
    expire_offers,
    lock_for_search,
    record_timeouts,
    resume_search,
    update_timer,
)
from catraca.domains.rides.search.store import newest_offer
from catraca.domains.rides.store import RIDE_DUE, lock_ride, lock_unlocked_rides, move_rides, read_ride
from catraca.events import CandidateFound, DriverRejected, OfferSent
from catraca.events.rides import Point
from catraca.platform.database import Db, outbox, timers
from catraca.platform.ids import new_id

DRIVERS_PER_EVENT = 20


async def make_offers(
    db: Db,
    ride_id: RideId,
    driver_ids: Sequence[UserId],
    *,
    ttl: timedelta,
    actor: Actor = "system",
    actor_id: UUID | None = None,
) -> MadeOffers:
    """Offer an open ride to those of these drivers who are free. A driver has one live offer at a time.

    An offer ends after `ttl`, or at the ride's deadline if that comes first.
    """
    locked = await lock_for_search(db, ride_id)
    if locked is None:
        raise RideNotFound
    if not locked.ride.is_open or locked.ride.deadline_at <= locked.now:
        raise RideNotOpen(ride_status=locked.ride.status)
    wanted = list(dict.fromkeys(driver_ids))
    skipped = await _unsuitable(db, locked, wanted)
    suitable = [driver_id for driver_id in wanted if driver_id not in skipped]
    plan = OfferPlan(locked=locked, driver_ids=suitable, trace=outbox.current_trace())
    ((made, _),) = await offer_rides(db, [plan], ttl=ttl, actor=actor, actor_id=actor_id)
    offered = {offer.driver_id for offer in made}
    skipped.update((driver_id, "busy") for driver_id in suitable if driver_id not in offered)
    return MadeOffers(made, skipped)


async def offer_rides(
    db: Db,
    plans: Sequence[OfferPlan],
    *,
    ttl: timedelta,
    actor: Actor = "system",
    actor_id: UUID | None = None,
) -> list[tuple[list[Offer], LockedRide]]:
    """Make the planned offers of different rides; return the offers of each plan, and its ride with them.

    Busy drivers get none. With several plans this raises `RidesCollide` for rides with a busy driver.
    """
    if not plans:
        return []
    made = await _insert_offers(db, plans, ttl=ttl)
    offered = [plan for plan in plans if made[plan.ride.id]]
    moved = await move_rides(
        db,
        [plan.ride for plan in offered if plan.ride.status != "OFFERED"],
        "OFFERED",
        actor=actor,
        actor_id=actor_id,
        news="matching.candidate_found",
    )
    events = [(event, plan.trace) for plan in offered for event in _candidates(plan, made[plan.ride.id])]
    await outbox.record_traced(db, events)
    rides = {plan.ride.id: plan.ride for plan in plans} | {ride.id: ride for ride in moved}
    after = {plan.ride.id: plan.locked.with_offers(rides[plan.ride.id], made[plan.ride.id]) for plan in plans}
    expiries = {plan.ride.id: after[plan.ride.id].first_expiry for plan in offered}
    await timers.set_timers(db, RIDE_DUE, {one: at for one, at in expiries.items() if at is not None})
    return [(made[ride_id], locked) for ride_id, locked in after.items()]


async def _insert_offers(db: Db, plans: Sequence[OfferPlan], *, ttl: timedelta) -> dict[RideId, list[Offer]]:
    """Insert the offers; return those of each ride."""
    wanted = [(OfferId(new_id()), plan.ride.id, driver_id) for plan in plans for driver_id in plan.driver_ids]
    made = await store.insert_offers(db, wanted, ttl=ttl)
    if len(made) < len(wanted):
        if len(plans) > 1:
            offered = {offer.id for offer in made}
            raise RidesCollide({ride_id for offer_id, ride_id, _ in wanted if offer_id not in offered})
        made = await _insert_missing(db, wanted, made, ttl=ttl)
    return {plan.ride.id: [one for one in made if one.ride_id == plan.ride.id] for plan in plans}


async def _insert_missing(
    db: Db, wanted: Sequence[tuple[OfferId, RideId, UserId]], made: Sequence[Offer], *, ttl: timedelta
) -> list[Offer]:
    """Expire lapsed offers of the drivers, insert the missing offers of one ride, and close the gaps."""
    offers = list(made)
    if await _end_lapsed_offers_of(db, [driver_id for _, _, driver_id in wanted]):
        offered = {offer.driver_id for offer in made}
        missing = [one for one in wanted if one[2] not in offered]
        offers += await store.insert_offers(db, missing, ttl=ttl)
    if not offers or len(offers) == len(wanted):
        return offers
    numbers = await store.close_gaps(db, offers[0].ride_id)
    return [replace(offer, attempt=numbers.get(offer.id, offer.attempt)) for offer in offers]


async def _end_lapsed_offers_of(db: Db, driver_ids: Sequence[UserId]) -> bool:
    """Expire these drivers' lapsed offers of other rides; true if there was one.

    Rides locked by other transactions are skipped: waiting for them with this ride locked could deadlock.
    """
    ride_ids = await store.rides_with_lapsed_offers(db, driver_ids)
    if not ride_ids:
        return False
    for ride_id in await lock_unlocked_rides(db, ride_ids):
        ride = await lock_ride(db, RideId(ride_id))
        assert ride is not None, "the ride is locked"
        await update_timer(db, await expire_offers(db, ride))
    return True


async def _unsuitable(db: Db, locked: LockedRide, driver_ids: Sequence[UserId]) -> dict[UUID, SkipReason]:
    drivers = await people.approved_drivers(db, driver_ids)
    gave_up = {offer.driver_id for offer in locked.offers if offer.response == "ACCEPTED"}
    reasons: dict[UUID, SkipReason] = {}
    for driver_id in driver_ids:
        if driver_id == locked.ride.passenger_id:
            reasons[driver_id] = "own_ride"
        elif driver_id not in drivers:
            reasons[driver_id] = "not_a_driver"
        elif driver_id in gave_up:
            reasons[driver_id] = "gave_it_up"
    return reasons


def _candidates(plan: OfferPlan, offers: Sequence[Offer]) -> list[CandidateFound]:
    ride, distances = plan.ride.blurred(), plan.distances
    rejections = plan.locked.drivers_with("REJECTED", limit=DRIVERS_PER_EVENT)
    timeouts = plan.locked.drivers_with("EXPIRED", limit=DRIVERS_PER_EVENT)
    return [
        CandidateFound(
            offer_id=offer.id,
            ride_id=ride.id,
            driver_id=offer.driver_id,
            round=ride.round,
            attempt=offer.attempt,
            rider_id=ride.passenger_id,
            expires_at=offer.expires_at,
            pickup=Point(ride.pickup_lat, ride.pickup_lon),
            distance_meters=ride.distance_meters,
            estimated_fare_cents=ride.estimated_fare_cents,
            pickup_distance_meters=round(distances[offer.driver_id])
            if offer.driver_id in distances
            else None,
            previous_rejections=rejections,
            previous_timeout=timeouts,
        )
        for offer in offers
    ]


async def reject_ride(
    db: Db, ride_id: RideId, *, driver_id: UserId, reason: RejectReason | None = None
) -> Offer:
    """Reject the driver's live offer. Safe to repeat: a second call returns the same offer."""
    ride = await lock_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    offer = await store.answer_offer(db, ride_id, driver_id, "REJECTED", reason=reason)
    if offer is None:
        return await _rejected_before(db, ride, driver_id)
    assert offer.responded_at is not None
    ride = await resume_search(db, ride, after=offer, news="matching.driver_rejected")
    await outbox.record(
        db,
        DriverRejected(
            offer_id=offer.id,
            ride_id=ride.id,
            driver_id=driver_id,
            round=offer.round,
            attempt=offer.attempt,
            rejected_at=offer.responded_at,
            reason=reason,
        ),
    )
    await update_timer(db, ride)
    return offer


async def _rejected_before(db: Db, ride: Ride, driver_id: UserId) -> Offer:
    offer = await newest_offer(db, ride.id, driver_id)
    if offer is None:
        raise OfferNotReceived
    if offer.response == "REJECTED":
        return offer
    if offer.response == "ACCEPTED":
        raise RideCannotBeRejected(ride_status=ride.status)
    if offer.response == "CANCELED" and ride.accepted_driver_id is not None:
        raise RideAlreadyAccepted(accepted_by_you=False)
    raise OfferExpired


async def withdraw_offers(db: Db, driver_id: UserId) -> None:
    """End the live offer of a driver who went offline. Safe to repeat."""
    for ride_id in await store.rides_offered_to(db, driver_id):
        ride = await lock_ride(db, ride_id)
        if ride is None:
            continue
        offer = await store.answer_offer(db, ride_id, driver_id, "EXPIRED", reason="driver_offline")
        if offer is not None:
            ride = await resume_search(db, ride, after=offer, news="matching.driver_timeout")
            await record_timeouts(db, [offer])
            await update_timer(db, ride)


async def acknowledge_offers(db: Db, offer_ids: Iterable[UUID]) -> None:
    """Record that the drivers' devices received these offers. Safe to repeat: one event per offer."""
    received = await store.insert_receipts(db, offer_ids)
    await outbox.record(
        db,
        *(
            OfferSent(
                offer_id=offer.id,
                ride_id=offer.ride_id,
                driver_id=offer.driver_id,
                round=offer.round,
                attempt=offer.attempt,
                sent_at=at,
            )
            for offer, at in received
        ),
    )


async def open_offers(db: Db, offer_ids: Iterable[UUID]) -> set[UUID]:
    """Return those of these offers that can still be accepted."""
    return await store.open_offers(db, offer_ids)


async def busy_drivers(db: Db, driver_ids: Iterable[UUID]) -> dict[UUID, BusyDriver]:
    """Return those of these drivers who drive a ride or have a live offer."""
    return await store.busy_drivers(db, driver_ids)


async def may_reserve(db: Db, ride_id: UUID, driver_id: UUID) -> bool:
    """True if the ride has this driver or may still get them. True for an unknown ride."""
    ride = await read_ride(db, RideId(ride_id))
    if ride is None:
        return True
    if ride.is_open:
        newest = await newest_offer(db, ride.id, UserId(driver_id))
        return newest is None or newest.response != "ACCEPTED"  # ACCEPTED: the driver gave this ride up
    return ride.is_driven and ride.accepted_driver_id == driver_id
