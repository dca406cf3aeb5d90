"""Start, deadline and end of the search for a driver.

Matching ends a search at its deadline. A ride's own timer ends it a little later if matching did not.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from catraca.domains.rides.flags.service import flag_ride
from catraca.domains.rides.model import Actor, Offer, Ride, RideId
from catraca.domains.rides.search import store
from catraca.domains.rides.search.model import LockedRide, RidesCollide
from catraca.domains.rides.store import (
    RIDE_DUE,
    RideChange,
    lock_ride,
    lock_rides_at_once,
    move_ride,
    seconds_since_start,
)
from catraca.domains.rides.tracks.store import take_track
from catraca.events import DriverTimeout, OfferCanceled, RideCancelled
from catraca.platform.database import Db, outbox, timers

SEARCH_GRACE = timedelta(seconds=timers.LEASE_SECONDS)


async def lock_for_search(db: Db, ride_id: RideId) -> LockedRide | None:
    """Lock the ride until the transaction ends, and expire its lapsed offers."""
    ride = await lock_ride(db, ride_id)
    if ride is None:
        return None
    (locked,) = await _with_offers(db, [ride])
    if locked.has_lapsed_offers:
        ride = await expire_offers(db, ride)
        await update_timer(db, ride)
        (locked,) = await _with_offers(db, [ride])
    return locked


async def lock_all_for_search(db: Db, ride_ids: Sequence[RideId]) -> list[LockedRide]:
    """The same for several rides, in two statements. Never waits for another transaction.

    Raises `RidesCollide` for rides that are locked, are unknown or have lapsed offers.
    """
    locked = await _with_offers(db, await lock_rides_at_once(db, ride_ids))
    ready = {one.ride.id for one in locked if not one.has_lapsed_offers}
    if colliding := set(ride_ids) - ready:
        raise RidesCollide(colliding)
    return locked


async def _with_offers(db: Db, rides: Sequence[Ride]) -> list[LockedRide]:
    at, offers = await store.read_offers(db, [ride.id for ride in rides])
    return [LockedRide(ride, at, [one for one in offers if one.ride_id == ride.id]) for ride in rides]


async def begin_search(db: Db, ride: Ride, *, news: str) -> Ride:
    """Move a locked ride from `REQUESTED` to `SEARCHING`; no change in any other state."""
    if ride.status != "REQUESTED":
        return ride
    ride = await move_ride(db, ride, "SEARCHING", actor="system", actor_id=None, news=news)
    await update_timer(db, ride)
    return ride


async def end_search(db: Db, ride: Ride, *, searched: bool = False) -> LockedRide:
    """End a locked open ride without a driver.

    A ride that was never searched for becomes `EXPIRED`, any other `CANCELED`. `searched` is true if
    matching has searched, although the ride is still `REQUESTED`.
    """
    ride = await expire_offers(db, ride)
    never_searched = ride.status == "REQUESTED" and not searched
    ride = await close_ride(
        db,
        ride,
        "EXPIRED" if never_searched else "CANCELED",
        actor="system",
        actor_id=None,
        reason="expired" if never_searched else "no_drivers_available",
        offer_reason="no_drivers_available",
    )
    (ended,) = await _with_offers(db, [ride])
    return ended


async def close_ride(
    db: Db,
    ride: Ride,
    to: Literal["EXPIRED", "CANCELED"],
    *,
    actor: Actor,
    actor_id: UUID | None,
    reason: str,
    offer_reason: Literal["ride_canceled", "no_drivers_available"],
    note: str | None = None,
) -> Ride:
    """End a locked unfinished ride: cancel its live offers, release its driver, delete its track."""
    canceled = await store.cancel_live_offers(db, ride.id, reason=offer_reason)
    if ride.is_driven:
        await store.release_driver(db, ride.id, reason=offer_reason)
        await take_track(db, ride.id)
    change: RideChange = {}
    if to == "CANCELED":
        change = {"canceled_by": actor, "cancel_reason": reason, "cancel_note": note}
    ride = await move_ride(
        db,
        ride,
        to,
        actor=actor,
        actor_id=actor_id,
        reason=reason,
        news="ride.cancelled",
        stamp="canceled_at" if to == "CANCELED" else None,
        change=change,
    )
    await outbox.record(
        db,
        RideCancelled(
            ride_id=ride.id,
            round=ride.round,
            rider_id=ride.passenger_id,
            driver_id=ride.accepted_driver_id,
            cancelled_by=actor,
            reason=reason,
            cancelled_at=ride.updated_at,
        ),
        *(
            OfferCanceled(
                offer_id=offer.id,
                ride_id=offer.ride_id,
                driver_id=offer.driver_id,
                round=offer.round,
                attempt=offer.attempt,
                reason=offer_reason,
            )
            for offer in canceled
        ),
    )
    await update_timer(db, ride)
    return ride


async def expire_ride(db: Db, ride_id: RideId) -> None:
    """Expire lapsed offers, and end the search if it is overdue. Flag a started ride. Safe to repeat."""
    ride = await lock_ride(db, ride_id)
    if ride is not None and ride.status == "STARTED":
        await _flag_long_ride(db, ride)
    if ride is None or not ride.is_open:
        return
    ride = await expire_offers(db, ride)
    if await store.search_is_overdue(db, ride.id, grace=SEARCH_GRACE):
        await end_search(db, ride)
    else:
        await update_timer(db, ride)


async def _flag_long_ride(db: Db, ride: Ride) -> None:
    """The timer was set at the start, for the time when the ride takes too long."""
    seconds = await seconds_since_start(db, ride.id)
    await flag_ride(db, ride.id, "takes_too_long", measured=seconds)


async def expire_offers(db: Db, ride: Ride) -> Ride:
    """Expire the lapsed offers of a locked ride. After the last live offer the ride is `SEARCHING` again."""
    expired = await store.expire_lapsed_offers(db, ride.id)
    if not expired:
        return ride
    ride = await resume_search(db, ride, after=expired[-1], news="matching.driver_timeout")
    await record_timeouts(db, expired)
    return ride


async def record_timeouts(db: Db, offers: Iterable[Offer]) -> None:
    await outbox.record(db, *map(_timeout, offers))


def _timeout(offer: Offer) -> DriverTimeout:
    assert offer.responded_at is not None, "the offer has ended"
    return DriverTimeout(
        offer_id=offer.id,
        ride_id=offer.ride_id,
        driver_id=offer.driver_id,
        round=offer.round,
        attempt=offer.attempt,
        timeout_at=offer.responded_at,
        reason=offer.reason,
    )


async def resume_search(db: Db, ride: Ride, *, after: Offer, news: str) -> Ride:
    """Move a locked ride back to `SEARCHING` if `after` was its last live offer."""
    if ride.status != "OFFERED" or await store.first_expiry(db, ride.id) is not None:
        return ride
    by_driver = after.response == "REJECTED"
    return await move_ride(
        db,
        ride,
        "SEARCHING",
        actor="driver" if by_driver else "system",
        actor_id=after.driver_id if by_driver else None,
        reason=None if after.response is None else after.response.lower(),
        news=news,
    )


async def update_timer(db: Db, ride: Ride, *, first_expiry: datetime | None = None) -> None:
    """Set the ride's timer to its first offer's end, else to the end of the search; cancel it if closed.

    `first_expiry` saves a query if the caller knows it.
    """
    if not ride.is_open:
        await timers.cancel_timer(db, RIDE_DUE, ride.id)
        return
    if first_expiry is None and ride.status == "OFFERED":
        first_expiry = await store.first_expiry(db, ride.id)
    await timers.set_timer(db, RIDE_DUE, ride.id, due_at=first_expiry or ride.deadline_at + SEARCH_GRACE)
