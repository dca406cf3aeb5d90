"""Who sees what of a ride: its parties what they need, operators everything, strangers nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import User, UserId
from catraca.domains.rides.errors import RideNotFound
from catraca.domains.rides.model import DRIVEN, MOVES, Offer, Ride, RideId, Status, Step
from catraca.domains.rides.store import attempts as attempt_store
from catraca.domains.rides.store import offers as offer_store
from catraca.domains.rides.store import rides as store
from catraca.domains.rides.store.attempts import RecordedAttempt
from catraca.platform.database import Db

Part = Literal["passenger", "driver", "offered", "operator"]
STEPS_TOLD = 500
OFFERS_TOLD = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RideView:
    """A ride as one of its parties sees it."""

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
    # What there was more of than is told.
    cut: tuple[Literal["steps", "offers"], ...] = ()


async def view_ride(db: Db, ride_id: RideId, *, caller_id: UserId, sees_all: bool) -> RideView:
    """The ride, to its passenger, its driver, whoever it is offered to, and operators; else there is none."""
    ride = await store.read_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    if ride.passenger_id == caller_id:
        return await _with_people(db, ride, "passenger")
    if ride.accepted_driver_id == caller_id:
        return await _with_people(db, ride, "driver")
    if sees_all:
        return await _with_people(db, ride, "operator")
    offer = await offer_store.newest_offer(db, ride_id, caller_id)
    if offer is None or offer.response is not None:
        raise RideNotFound
    return RideView(ride=ride, part="offered", offer=offer)


async def check_party(db: Db, ride_id: RideId, *, caller_id: UserId, sees_all: bool) -> None:
    """Refuse whoever is neither the ride's passenger nor its driver; to them there is no such ride."""
    ride = await store.read_ride(db, ride_id)
    if ride is None or not (sees_all or caller_id in (ride.passenger_id, ride.accepted_driver_id)):
        raise RideNotFound


async def _with_people(db: Db, ride: Ride, part: Part) -> RideView:
    """Each party learns of the other while they have to meet, and no longer."""
    if part != "operator" and ride.status not in DRIVEN:
        return RideView(ride=ride, part=part)
    ids = [one for one in (ride.passenger_id, ride.accepted_driver_id) if one is not None]
    found = await people.get_users(db, ids)
    driver = found.get(ride.accepted_driver_id) if ride.accepted_driver_id else None
    return RideView(ride=ride, part=part, passenger=found.get(ride.passenger_id), driver=driver)


def view_of(ride: Ride, caller_id: UserId, *, sees_all: bool) -> RideView:
    """The ride to somebody who has to do with it, without the other party's data."""
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
    """The caller's own rides, or everybody's, newest first; who the parties are tells each ride itself."""
    wanted = statuses or tuple(MOVES)
    if sees_all:
        rides = await store.all_rides(db, statuses=wanted, before=before, limit=limit)
    else:
        rides = await store.rides_of(db, caller_id, statuses=wanted, before=before, limit=limit)
    return [view_of(ride, caller_id, sees_all=sees_all) for ride in rides]


async def read_attempts(db: Db, ride_id: RideId, *, after: UUID | None, limit: int) -> list[RecordedAttempt]:
    """Every attempt to accept the ride, in the order they came in."""
    if await store.read_ride(db, ride_id) is None:
        raise RideNotFound
    return await attempt_store.read_attempts(db, ride_id, after=after, limit=limit)


async def active_ride(db: Db, driver_id: UserId) -> RideView | None:
    """What a driver has accepted and not finished: for an app that was closed before it heard the answer."""
    ride = await store.active_ride_of(db, driver_id)
    return None if ride is None else await _with_people(db, ride, "driver")


async def read_timeline(db: Db, ride_id: RideId) -> Timeline:
    """Every step and every offer of a ride, in their order."""
    ride = await store.read_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    steps = await store.read_steps(db, ride_id, limit=STEPS_TOLD + 1)
    offers = await offer_store.read_offers(db, ride_id, limit=OFFERS_TOLD + 1)
    cut: list[Literal["steps", "offers"]] = []
    if len(steps) > STEPS_TOLD:
        cut.append("steps")
    if len(offers) > OFFERS_TOLD:
        cut.append("offers")
    return Timeline(ride, steps[:STEPS_TOLD], offers[:OFFERS_TOLD], tuple(cut))
