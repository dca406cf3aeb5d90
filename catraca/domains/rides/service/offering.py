"""Offers: made, refused, withdrawn. Who accepts one is told in `accepting.py`."""

from collections.abc import Sequence
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
    OPEN,
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
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.events import CandidateFound, DriverRejected
from catraca.platform import outbox
from catraca.platform.database import Db
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
    ride = await _hold_for_offers(db, ride_id, driver_ids)
    wanted = list(dict.fromkeys(driver_ids))
    skipped = await _unfit(db, ride, wanted)
    fit = [(OfferId(new_id()), driver_id) for driver_id in wanted if driver_id not in skipped]
    made = await offer_store.insert_offers(db, ride.id, fit, ttl=ttl)
    served = {offer.driver_id for offer in made}
    skipped |= {driver_id: "busy" for _, driver_id in fit if driver_id not in served}
    if made:
        if ride.status != "OFFERED":
            ride = await store.move_ride(
                db, ride, "OFFERED", actor=actor, actor_id=actor_id, news="matching.candidate_found"
            )
        await outbox.record(db, *await _found(db, ride, made))
        await set_due(db, ride)
    return MadeOffers(made, skipped)


async def _hold_for_offers(db: Db, ride_id: RideId, driver_ids: Sequence[UserId]) -> Ride:
    """The open ride. What ran out for these drivers elsewhere is ended first, so that they are free."""
    lapsed_at = await offer_store.rides_with_lapsed_offers(db, driver_ids)
    held = await store.lock_rides(db, [ride_id, *lapsed_at])
    if ride_id not in held:
        raise RideNotFound
    for other in {ride_id, *lapsed_at} & held.keys():
        held[other] = await expire_offers(db, held[other])
        if other != ride_id:
            await set_due(db, held[other])
    ride = held[ride_id]
    if ride.status not in OPEN or await store.search_is_over(db, ride_id):
        raise RideNotOpen(ride_status=ride.status)
    return ride


async def _unfit(db: Db, ride: Ride, driver_ids: Sequence[UserId]) -> dict[UUID, Skipped]:
    drivers = await people.who_may_drive(db, driver_ids)
    gave_up = await offer_store.who_gave_up(db, ride.id)
    unfit: dict[UUID, Skipped] = {}
    for driver_id in driver_ids:
        if driver_id == ride.passenger_id:
            unfit[driver_id] = "own_ride"
        elif driver_id not in drivers:
            unfit[driver_id] = "not_a_driver"
        elif driver_id in gave_up:
            unfit[driver_id] = "gave_it_up"
    return unfit


async def _found(db: Db, ride: Ride, offers: Sequence[Offer]) -> list[CandidateFound]:
    rejections = await offer_store.who_declined(db, ride.id, "REJECTED", limit=TOLD_AT_MOST)
    timeouts = await offer_store.who_declined(db, ride.id, "EXPIRED", limit=TOLD_AT_MOST)
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
