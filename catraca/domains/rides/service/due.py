"""What time does to a ride: offers run out, and so does the search.

A ride has one timer. Ending a search in time is up to whoever searches (matching); should nobody have done so
a while after its deadline, it is done here, for no passenger may be forgotten.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from catraca.domains.rides.model import OPEN, Offer, Ride, RideId
from catraca.domains.rides.service import telling
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.platform.database import Db, outbox, timers
from catraca.platform.database.timers import TimerKind

RIDE_DUE = TimerKind("rides.due")
# By then whoever searches has ended the search, or is not there.
OVERTIME = timedelta(seconds=timers.LEASE_SECONDS)


async def set_due(db: Db, ride: Ride, *, first_expiry: datetime | None = None) -> None:
    """Set the ride's timer for what comes next, or cancel it when nothing does.

    `first_expiry` spares the question when the first live offer runs out.
    """
    if ride.status not in OPEN:
        await timers.cancel_timer(db, RIDE_DUE, ride.id)
        return
    if first_expiry is None and ride.status == "OFFERED":
        first_expiry = await offer_store.first_expiry(db, ride.id)
    due_at = first_expiry or ride.deadline_at + OVERTIME
    await timers.set_timer(db, RIDE_DUE, ride.id, due_at=due_at)


async def settle_due(db: Db, ride_id: RideId) -> None:
    """End what has run out. Safe to repeat: what has not run out, or has ended, is left alone."""
    ride = await store.lock_ride(db, ride_id)
    if ride is None or ride.status not in OPEN:
        return
    ride = await expire_offers(db, ride)
    if await store.search_is_over(db, ride.id, for_longer_than=OVERTIME):
        await end_search(db, ride)
    else:
        await set_due(db, ride)


async def expire_offers(db: Db, ride: Ride) -> Ride:
    """End the offers of a ride that is held whose time has run out; without another it is searched for."""
    expired = await offer_store.expire_lapsed_offers(db, ride.id)
    if not expired:
        return ride
    ride = await back_to_search(db, ride, after=expired[-1], news="matching.driver_timeout")
    await outbox.record(db, *telling.timeouts(expired, ttl_expired=True))
    return ride


async def back_to_search(db: Db, ride: Ride, *, after: Offer, news: str) -> Ride:
    """Once no offer is live any more, whichever was the last."""
    if ride.status != "OFFERED" or await offer_store.first_expiry(db, ride.id) is not None:
        return ride
    by_driver = after.response == "REJECTED"
    return await store.move_ride(
        db,
        ride,
        "SEARCHING",
        actor="driver" if by_driver else "system",
        actor_id=after.driver_id if by_driver else None,
        reason=None if after.response is None else after.response.lower(),
        news=news,
    )


@dataclass(frozen=True, slots=True)
class EndedSearch:
    """A ride nobody came for, and whom it had been offered to."""

    ride: Ride
    offers: list[Offer]

    @property
    def was_asking(self) -> bool:
        """Whether somebody could have accepted until the very end."""
        return any(offer.response == "EXPIRED" and self._lasted(offer) for offer in self.offers)

    def _lasted(self, offer: Offer) -> bool:
        """Whoever went offline before the end could not accept any more, however long the offer was for."""
        ended_at = offer.responded_at or offer.expires_at
        return min(offer.expires_at, ended_at) >= self.ride.deadline_at


async def end_search(db: Db, ride: Ride, *, searched: bool = False) -> EndedSearch:
    """End an open ride that is held. One that nobody was even looked for has expired; others are canceled.

    `searched` says that somebody was, though nothing of the ride shows it yet.
    """
    ride = await expire_offers(db, ride)
    lost = await offer_store.cancel_live_offers(db, ride.id, reason="no_drivers_available")
    unheard = ride.status == "REQUESTED" and not searched
    reason = "expired" if unheard else "no_drivers_available"
    ride = await store.move_ride(
        db,
        ride,
        "EXPIRED" if unheard else "CANCELED",
        actor="system",
        actor_id=None,
        reason=reason,
        news="ride.cancelled",
        stamp=None if unheard else "canceled_at",
        change={} if unheard else {"canceled_by": "system", "cancel_reason": reason},
    )
    await outbox.record(
        db,
        telling.cancellation(ride, by="system", reason=reason),
        *telling.lost_offers(lost, "no_drivers_available"),
    )
    await set_due(db, ride)
    return await read_ended_search(db, ride)


async def read_ended_search(db: Db, ride: Ride) -> EndedSearch:
    return EndedSearch(ride, await offer_store.offers_of_round(db, ride.id, ride.round))
