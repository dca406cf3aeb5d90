"""A ride in the hands of whoever looks for a driver: nothing about it changes until they are done."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Offer, Response, Ride, RideId
from catraca.domains.rides.service.due import expire_offers, set_due
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.domains.rides.store.offers import Asked
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True)
class HeldRide:
    """The ride, everybody it was offered to, in their order, and what time it was when that was so."""

    ride: Ride
    now: datetime
    asked: Sequence[Asked]

    @property
    def live(self) -> int:
        """How many offers wait for an answer."""
        return sum(one.response is None for one in self.asked)

    @property
    def first_expiry(self) -> datetime | None:
        """When the first of these runs out."""
        return min((one.expires_at for one in self.asked if one.response is None), default=None)

    @property
    def answers(self) -> dict[UUID, Response | None]:
        """What each driver said last."""
        return {one.driver_id: one.response for one in self.asked}

    def who_said(self, response: Response, *, limit: int) -> tuple[UUID, ...]:
        """The last of those who gave no better answer than this one."""
        return tuple(one.driver_id for one in self.asked if one.response == response)[-limit:]

    def after(self, ride: Ride, offers: Sequence[Offer]) -> "HeldRide":
        """The same once these offers were made."""
        made = [Asked(offer.driver_id, offer.expires_at, None) for offer in offers]
        return HeldRide(ride, self.now, [*self.asked, *made])


async def hold_ride(db: Db, ride_id: RideId) -> HeldRide | None:
    """Hold the ride until the transaction ends; what has run out by now is ended first."""
    ride = await store.lock_ride(db, ride_id)
    if ride is None:
        return None
    held = HeldRide(ride, *await offer_store.everybody_asked(db, ride_id))
    if held.first_expiry is not None and held.first_expiry <= held.now:
        ride = await expire_offers(db, ride)
        await set_due(db, ride)
        held = HeldRide(ride, *await offer_store.everybody_asked(db, ride_id))
    return held


async def begin_search(db: Db, ride: Ride, *, news: str) -> Ride:
    """A held ride that was only asked for is searched for from now on; others stay as they are."""
    if ride.status != "REQUESTED":
        return ride
    ride = await store.move_ride(db, ride, "SEARCHING", actor="system", actor_id=None, news=news)
    await set_due(db, ride)
    return ride


async def may_hold(db: Db, ride_id: UUID, driver_id: UUID) -> bool:
    """Whether this ride may keep this driver, whose it is or may yet be. An unknown one may."""
    ride = await store.read_ride(db, RideId(ride_id))
    if ride is None:
        return True
    if ride.is_open:
        newest = await offer_store.newest_offer(db, ride.id, UserId(driver_id))
        return newest is None or newest.response != "ACCEPTED"  # or they gave it up
    return ride.is_driven and ride.accepted_driver_id == driver_id
