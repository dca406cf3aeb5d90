"""Offers: made, refused, withdrawn. Who accepts one is told in `accepting.py`."""

from collections.abc import Mapping, Sequence
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
from catraca.domains.rides.model import (
    Actor,
    MadeOffers,
    Offer,
    OfferId,
    RejectReason,
    Ride,
    RideId,
    Skipped,
)
from catraca.domains.rides.service import telling
from catraca.domains.rides.service.due import back_to_search, expire_offers, set_due
from catraca.domains.rides.service.holding import HeldRide, hold_ride
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.events import CandidateFound, DriverRejected
from catraca.platform.database import Db, outbox
from catraca.platform.ids import new_id

TOLD_AT_MOST = 20


async def make_offers(
    db: Db,
    ride_id: RideId,
    driver_ids: Sequence[UserId],
    *,
    ttl: timedelta,
    actor: Actor = "system",
    actor_id: UUID | None = None,
) -> MadeOffers:
    """Offer an open ride to each of these drivers who is free. Never a second live offer to anybody.

    An offer ends after `ttl` or with the ride's search, whichever comes first.
    """
    held = await hold_ride(db, ride_id)
    if held is None:
        raise RideNotFound
    if not held.ride.is_open or held.ride.deadline_at <= held.now:
        raise RideNotOpen(ride_status=held.ride.status)
    wanted = list(dict.fromkeys(driver_ids))
    skipped = await _unfit(db, held, wanted)
    fit = [driver_id for driver_id in wanted if driver_id not in skipped]
    made, _ = await offer_held(db, held, fit, ttl=ttl, actor=actor, actor_id=actor_id)
    served = {offer.driver_id for offer in made}
    skipped.update((one, "busy") for one in fit if one not in served)
    return MadeOffers(made, skipped)


async def offer_held(
    db: Db,
    held: HeldRide,
    driver_ids: Sequence[UserId],
    *,
    ttl: timedelta,
    actor: Actor = "system",
    actor_id: UUID | None = None,
    distances: Mapping[UUID, float] | None = None,
) -> tuple[list[Offer], HeldRide]:
    """Offer an open ride that is held to those of these drivers, all fit for it, whom nobody holds.

    Answers the offers, and the ride with them. `distances` says how far away a driver is.
    """
    wanted = [(OfferId(new_id()), driver_id) for driver_id in driver_ids]
    made = await offer_store.insert_offers(db, held.ride.id, wanted, ttl=ttl)
    if len(made) < len(wanted) and await _free_lapsed(db, driver_ids):
        served = {offer.driver_id for offer in made}
        freed = [one for one in wanted if one[1] not in served]
        made += await offer_store.insert_offers(db, held.ride.id, freed, ttl=ttl)
    if not made:
        return made, held
    if len(made) < len(wanted):
        made = await _without_gaps(db, held.ride.id, made)
    ride = held.ride
    if ride.status != "OFFERED":
        ride = await store.move_ride(
            db, ride, "OFFERED", actor=actor, actor_id=actor_id, news="matching.candidate_found"
        )
    await outbox.record(db, *_found(held, ride, made, distances or {}))
    held = held.after(ride, made)
    await set_due(db, ride, first_expiry=held.first_expiry)
    return made, held


async def _without_gaps(db: Db, ride_id: RideId, made: Sequence[Offer]) -> list[Offer]:
    """Who was snatched away in the very moment leaves no hole in the numbers of the others."""
    moved = await offer_store.close_gaps(db, ride_id)
    return [replace(offer, attempt=moved.get(offer.id, offer.attempt)) for offer in made]


async def _free_lapsed(db: Db, driver_ids: Sequence[UserId]) -> bool:
    """End what ran out for these drivers elsewhere, so that they are free; whether there was any.

    Except where somebody holds that ride just now: whoever waited for it, with a ride in hand, might be
    waited for in turn. Such a driver is busy for a moment longer.
    """
    lapsed_at = await offer_store.rides_with_lapsed_offers(db, driver_ids)
    if not lapsed_at:
        return False
    for ride_id in await store.lock_free_rides(db, lapsed_at):
        ride = await store.lock_ride(db, RideId(ride_id))
        assert ride is not None
        await set_due(db, await expire_offers(db, ride))
    return True


async def _unfit(db: Db, held: HeldRide, driver_ids: Sequence[UserId]) -> dict[UUID, Skipped]:
    drivers = await people.who_may_drive(db, driver_ids)
    gave_up = {one.driver_id for one in held.asked if one.response == "ACCEPTED"}
    unfit: dict[UUID, Skipped] = {}
    for driver_id in driver_ids:
        if driver_id == held.ride.passenger_id:
            unfit[driver_id] = "own_ride"
        elif driver_id not in drivers:
            unfit[driver_id] = "not_a_driver"
        elif driver_id in gave_up:
            unfit[driver_id] = "gave_it_up"
    return unfit


def _found(
    held: HeldRide, ride: Ride, offers: Sequence[Offer], distances: Mapping[UUID, float]
) -> list[CandidateFound]:
    rejections = held.who_said("REJECTED", limit=TOLD_AT_MOST)
    timeouts = held.who_said("EXPIRED", limit=TOLD_AT_MOST)
    return [
        CandidateFound(
            offer_id=offer.id,
            ride_id=ride.id,
            driver_id=offer.driver_id,
            round=ride.round,
            attempt=offer.attempt,
            rider_id=ride.passenger_id,
            expires_at=offer.expires_at,
            pickup=telling.pickup_of(ride.without_doors()),
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
    """The driver does not want the ride. Safe to repeat: a second refusal changes nothing."""
    ride = await store.lock_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    offer = await offer_store.answer_live_offer(db, ride_id, driver_id, "REJECTED", reason=reason)
    if offer is None:
        return await _rejected_before(db, ride, driver_id)
    assert offer.responded_at is not None
    ride = await back_to_search(db, ride, after=offer, news="matching.driver_rejected")
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
    await set_due(db, ride)
    return offer


async def _rejected_before(db: Db, ride: Ride, driver_id: UserId) -> Offer:
    offer = await offer_store.newest_offer(db, ride.id, driver_id)
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
    """Take back what is offered to a driver who went offline. Safe to repeat."""
    for ride_id in await offer_store.live_offers_of(db, driver_id):
        ride = await store.lock_ride(db, ride_id)
        if ride is None:
            continue
        offer = await offer_store.answer_live_offer(
            db, ride_id, driver_id, "EXPIRED", reason="driver_offline"
        )
        if offer is not None:
            ride = await back_to_search(db, ride, after=offer, news="matching.driver_timeout")
            await outbox.record(db, *telling.timeouts([offer], ttl_expired=False))
            await set_due(db, ride)
