"""A link to a trip as values, and how much of the trip it shows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.domains.location.model import Ping
from catraca.domains.people import User
from catraca.domains.rides import Ride
from catraca.platform.geo import Place

ShareId = NewType("ShareId", UUID)
MAX_SHARES: Final = 5
# How long after a ride's end its links still show that it ended.
SHOWN_AFTER_END: Final = timedelta(hours=1)
# About a kilometre.
AREA_DIGITS: Final = 2
TripStatus = Literal["REQUESTED", "SEARCHING", "OFFERED", "ACCEPTED", "ARRIVING", "STARTED", "ENDED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A link to a trip. Its token is returned once, when the link is made."""

    id: ShareId
    ride_id: UUID
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTrip:
    """What a link shows. Most fields are None before a driver accepted and after the end."""

    status: TripStatus
    passenger_name: str | None = None
    driver_name: str | None = None
    vehicle: str | None = None
    plate: str | None = None
    # Rounded: the neighbourhood, not the address.
    pickup: Place | None = None
    dropoff: Place | None = None
    position: Ping | None = None
    ended_at: datetime | None = None
    ended_near: Place | None = None


def trip_under_way(
    ride: Ride, *, passenger: User | None, driver: User | None, position: Ping | None
) -> SharedTrip:
    car = driver.driver if driver else None
    rough = ride.blurred()
    return SharedTrip(
        status=_trip_status(ride),
        passenger_name=_first_name(passenger),
        driver_name=_first_name(driver),
        vehicle=car.vehicle if car else None,
        plate=car.plate if car else None,
        pickup=Place(rough.pickup_lat, rough.pickup_lon),
        dropoff=_place(rough.dropoff_lat, rough.dropoff_lon),
        position=position,
    )


def trip_not_under_way(ride: Ride) -> SharedTrip:
    """Before a driver accepted: the status. After the end: that it ended, and roughly when and where."""
    if ride.is_open:
        return SharedTrip(status=_trip_status(ride))
    ended_at = ride.completed_at or ride.canceled_at or ride.updated_at
    if ride.completed_at is not None:
        near = _place(ride.dropoff_lat, ride.dropoff_lon)
    elif ride.accepted_at is not None:
        near = Place(ride.pickup_lat, ride.pickup_lon)  # The passenger never left the pickup place.
    else:
        near = None
    return SharedTrip(
        status="ENDED",
        ended_at=ended_at.replace(second=0, microsecond=0),
        ended_near=near and Place(round(near.lat, AREA_DIGITS), round(near.lon, AREA_DIGITS)),
    )


def _trip_status(ride: Ride) -> TripStatus:
    match ride.status:
        case "REQUESTED" | "SEARCHING" | "OFFERED" | "ACCEPTED" | "ARRIVING" | "STARTED":
            return ride.status
        case _:
            return "ENDED"


def _first_name(person: User | None) -> str | None:
    return person.name.split()[0] if person and person.name else None


def _place(lat: float | None, lon: float | None) -> Place | None:
    return None if lat is None or lon is None else Place(lat, lon)
