"""Reading rides: parties and operators see a ride; for all other callers it does not exist."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import User, UserId
from catraca.domains.rides.errors import RideNotFound
from catraca.domains.rides.model import MOVES, Offer, Ride, RideId, Status
from catraca.domains.rides.search.store import newest_offer
from catraca.domains.rides.store import lock_ride, read_ride
from catraca.domains.rides.views import store
from catraca.domains.rides.views.store import DrivenRide, Step
from catraca.platform.database import Db

Part = Literal["passenger", "driver", "offered", "operator"]
STEPS_SHOWN = 500
OFFERS_SHOWN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RideView:
    """A ride as the caller sees it."""

    ride: Ride
    part: Part
    passenger: User | None = None
    driver: User | None = None
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    ride: Ride
    steps: list[Step]
    offers: list[Offer]
    # Lists that were longer and are cut.
    cut: tuple[Literal["steps", "offers"], ...] = ()


async def view_ride(db: Db, ride_id: RideId, *, caller_id: UserId, sees_all: bool) -> RideView:
    """Return the ride to its passenger, its driver, drivers with a live offer, and operators."""
    ride = await read_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    if ride.is_party(caller_id) or sees_all:
        view = view_of(ride, caller_id, sees_all=not ride.is_party(caller_id))
        return await _with_people(db, view)
    offer = await newest_offer(db, ride_id, caller_id)
    if offer is None or offer.response is not None:
        raise RideNotFound
    return RideView(ride=ride, part="offered", offer=offer)


async def read_own_ride(
    db: Db,
    ride_id: UUID,
    *,
    caller_id: UUID,
    sees_all: bool,
    only_passenger: bool = False,
    lock: bool = False,
) -> Ride:
    """Return the ride to its passenger, its driver (unless `only_passenger`) and callers who see all."""
    ride = await (lock_ride if lock else read_ride)(db, RideId(ride_id))
    if ride is None:
        raise RideNotFound
    is_own = caller_id == ride.passenger_id if only_passenger else ride.is_party(caller_id)
    if not (is_own or sees_all):
        raise RideNotFound
    return ride


async def read_rides(db: Db, ride_ids: Iterable[RideId]) -> dict[RideId, Ride]:
    return await store.read_rides(db, ride_ids)


async def driven_rides(db: Db, pairs: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], DrivenRide]:
    """Of these pairs of ride and driver, return the rides that this driver is driving now."""
    return await store.driven_rides(db, pairs)


async def _with_people(db: Db, view: RideView) -> RideView:
    """Add the other party's data for operators, and for both parties while the ride is driven."""
    ride = view.ride
    if view.part != "operator" and not ride.is_driven:
        return view
    ids = [user_id for user_id in (ride.passenger_id, ride.accepted_driver_id) if user_id is not None]
    users = await people.get_users(db, ids)
    driver = users.get(ride.accepted_driver_id) if ride.accepted_driver_id else None
    return RideView(ride=ride, part=view.part, passenger=users.get(ride.passenger_id), driver=driver)


def view_of(ride: Ride, caller_id: UserId, *, sees_all: bool) -> RideView:
    """Return the ride to a party, also one that just gave it up, or an operator, without the other's data."""
    if caller_id == ride.passenger_id:
        return RideView(ride=ride, part="passenger")
    return RideView(ride=ride, part="operator" if sees_all else "driver")


async def list_rides(
    db: Db,
    *,
    caller_id: UserId,
    sees_all: bool,
    statuses: Sequence[Status] | None,
    before: UUID | None,
    limit: int,
) -> list[RideView]:
    """Return the caller's own rides, or all rides, newest first, without the other party's data."""
    wanted = statuses or tuple(MOVES)
    if sees_all:
        rides = await store.all_rides(db, statuses=wanted, before=before, limit=limit)
    else:
        rides = await store.rides_of(db, caller_id, statuses=wanted, before=before, limit=limit)
    return [view_of(ride, caller_id, sees_all=sees_all) for ride in rides]


async def active_ride(db: Db, driver_id: UserId) -> RideView | None:
    """Return the ride that the driver has accepted and not finished."""
    ride = await store.active_ride_of(db, driver_id)
    return None if ride is None else await _with_people(db, RideView(ride=ride, part="driver"))


async def read_timeline(db: Db, ride_id: RideId) -> Timeline:
    """Return the steps and offers of a ride, in order."""
    ride = await read_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    steps = await store.read_steps(db, ride_id, limit=STEPS_SHOWN + 1)
    offers = await store.first_offers(db, ride_id, limit=OFFERS_SHOWN + 1)
    cut: list[Literal["steps", "offers"]] = []
    if len(steps) > STEPS_SHOWN:
        cut.append("steps")
    if len(offers) > OFFERS_SHOWN:
        cut.append("offers")
    return Timeline(ride, steps[:STEPS_SHOWN], offers[:OFFERS_SHOWN], tuple(cut))
