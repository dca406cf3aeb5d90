"""Positions as values: which pings move a driver, where on the map somebody must be looked for, and how much
of a trip others see.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NewType, Self
from uuid import UUID

import msgspec

from catraca.domains.people import User
from catraca.domains.rides import Ride
from catraca.platform.geo import Place, straight_line_meters

DriverId = NewType("DriverId", UUID)
ShareId = NewType("ShareId", UUID)
# "stale" and "future_dated" ones say nothing about now; the others do tell that the driver is there.
Fault = Literal["stale", "future_dated", "imprecise", "out_of_order", "impossible"]
UNTIMELY: Final[frozenset[Fault]] = frozenset({"stale", "future_dated"})
Source = Literal["redis", "database"]

# What Redis can index. Nobody drives nearer to the poles.
MAX_LATITUDE: Final = 85.0
# Where a phone does not say how precise it is.
USUAL_ACCURACY_METERS: Final = 50.0

CELLS_A_DEGREE: Final = 100
CELLS_AROUND: Final = 360 * CELLS_A_DEGREE
METERS_A_DEGREE: Final = (
    111_000.0  # a little less than there are, so that what is searched is never too small
)


@dataclass(frozen=True, slots=True)
class Ping:
    """Where a driver says to be, and when."""

    place: Place
    at: datetime
    accuracy_meters: float | None = None
    speed_mps: float | None = None
    heading_degrees: float | None = None

    @property
    def blur_meters(self) -> float:
        return USUAL_ACCURACY_METERS if self.accuracy_meters is None else self.accuracy_meters


@dataclass(frozen=True, slots=True, kw_only=True)
class PingRules:
    """What a ping must be like to move a driver."""

    max_age: timedelta = timedelta(seconds=60)
    # Clocks of phones differ a little from ours.
    max_ahead: timedelta = timedelta(seconds=5)
    max_speed_mps: float = 70.0
    max_accuracy_meters: float = 200.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What a driver's pings came to: a fault or None for each, and the one that counts from now on."""

    faults: list[Fault | None]
    newest: Ping | None

    @property
    def tells_presence(self) -> bool:
        return any(fault not in UNTIMELY for fault in self.faults)


def judge_pings(pings: Sequence[Ping], last: Ping | None, *, now: datetime, rules: PingRules) -> Judged:
    """Judge what one driver sent, in the order in which it happened, after the last ping that counted."""
    if len(pings) == 1:
        fault = judge(pings[0], last, now=now, rules=rules)
        return Judged([fault], None if fault else pings[0])
    faults: list[Fault | None] = [None] * len(pings)
    newest: Ping | None = None
    for place_in_list in sorted(range(len(pings)), key=lambda index: pings[index].at):
        ping = pings[place_in_list]
        fault = faults[place_in_list] = judge(ping, newest or last, now=now, rules=rules)
        if fault is None:
            newest = ping
    return Judged(faults, newest)


def judge(ping: Ping, last: Ping | None, *, now: datetime, rules: PingRules) -> Fault | None:
    """Why a ping must not move the driver; None when it may. A repeat of the last one may, to no effect."""
    if now - ping.at > rules.max_age:
        return "stale"
    if ping.at - now > rules.max_ahead:
        return "future_dated"
    if ping.accuracy_meters is not None and ping.accuracy_meters > rules.max_accuracy_meters:
        return "imprecise"
    if last is None or now - last.at > rules.max_age:
        return None  # after so long a silence the driver may be anywhere
    if ping.at < last.at or (ping.at == last.at and ping.place != last.place):
        return "out_of_order"
    return "impossible" if _is_leap(last, ping, rules) else None


def _is_leap(last: Ping, ping: Ping, rules: PingRules) -> bool:
    seconds = (ping.at - last.at).total_seconds()
    reach_meters = rules.max_speed_mps * seconds + last.blur_meters + ping.blur_meters
    return straight_line_meters(last.place, ping.place) > reach_meters


@dataclass(frozen=True, slots=True)
class Presence:
    """What PostgreSQL knows of a driver: whether they are at work, and where they were a while ago."""

    driver_id: DriverId
    online: bool
    since: datetime
    seen_at: datetime
    # How long ago that was, by the database's clock.
    silence: timedelta
    last: Ping | None


@dataclass(frozen=True, slots=True)
class Found:
    """A driver on the map."""

    driver_id: DriverId
    ping: Ping
    distance_meters: float


# After that a position on its way is no news; counted from when the server took the ping.
SHOWN_WITHIN: Final = timedelta(seconds=5)


class ShownPosition(msgspec.Struct, frozen=True, array_like=True):
    """Where the driver of a ride is, for that ride's passenger."""

    ride_id: UUID
    passenger_id: UUID
    driver_id: UUID
    lat: float
    lng: float
    # When the driver was there, by the driver's clock, and when the server took the ping, by its own.
    updated_at: datetime
    heading_degrees: float | None
    speed_mps: float | None
    taken_at: datetime

    def supersedes(self, other: Self | None) -> bool:
        """Whether it is newer than what was shown of this ride: on the way one may overtake another."""
        if other is None:
            return True
        if other.driver_id != self.driver_id:
            return self.taken_at > other.taken_at  # the clocks of two phones say nothing of each other
        return (self.updated_at, self.taken_at) > (other.updated_at, other.taken_at)

    def is_stale(self, now: datetime) -> bool:
        return now - self.taken_at > SHOWN_WITHIN


def encode_positions(positions: Sequence[ShownPosition]) -> bytes:
    """A batch for the wire."""
    return _encoder.encode(positions)


def decode_positions(data: bytes) -> list[ShownPosition]:
    return _decoder.decode(data)


_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(list[ShownPosition])


LINKS_A_RIDE: Final = 5
# How long after a ride's end its links still say that it ended.
AFTERLIFE: Final = timedelta(hours=1)
# About a kilometre.
AREA_DIGITS: Final = 2
TripStatus = Literal["REQUESTED", "SEARCHING", "OFFERED", "ACCEPTED", "ARRIVING", "STARTED", "ENDED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A link to a trip. Its token is told once, to whoever made it."""

    id: ShareId
    ride_id: UUID
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """What a link shows: before a driver has accepted and after the end next to nothing."""

    status: TripStatus
    passenger_name: str | None = None
    driver_name: str | None = None
    vehicle: str | None = None
    plate: str | None = None
    # Roughly: the neighbourhood, not the door.
    pickup: Place | None = None
    dropoff: Place | None = None
    position: Ping | None = None
    ended_at: datetime | None = None
    ended_near: Place | None = None


def trip_under_way(ride: Ride, *, passenger: User | None, driver: User | None, position: Ping | None) -> Trip:
    car = driver.driver if driver else None
    rough = ride.blurred()
    return Trip(
        status=_trip_status(ride),
        passenger_name=_first_name(passenger),
        driver_name=_first_name(driver),
        vehicle=car.vehicle if car else None,
        plate=car.plate if car else None,
        pickup=Place(rough.pickup_lat, rough.pickup_lon),
        dropoff=_place(rough.dropoff_lat, rough.dropoff_lon),
        position=position,
    )


def trip_at_rest(ride: Ride) -> Trip:
    """Before a driver has accepted: the status. After the end: that it ended, about when and about where."""
    if ride.is_open:
        return Trip(status=_trip_status(ride))
    ended_at = ride.completed_at or ride.canceled_at or ride.updated_at
    if ride.completed_at is not None:
        near = _place(ride.dropoff_lat, ride.dropoff_lon)
    elif ride.accepted_at is not None:
        near = Place(ride.pickup_lat, ride.pickup_lon)  # the passenger was never driven away from there
    else:
        near = None
    return Trip(
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


def cell_of(place: Place) -> int:
    """The number of the square that a place is in: rows from south to north, each numbered eastwards."""
    return _row(place.lat) * CELLS_AROUND + _column(place.lon)


def cells_around(place: Place, radius_meters: float) -> list[tuple[int, int]]:
    """Ranges of cells, ends included, that hold every place within the radius, and more."""
    north = radius_meters / METERS_A_DEGREE
    south_edge, north_edge = max(-90.0, place.lat - north), min(90.0, place.lat + north)
    # Meridians come closer towards the poles: what counts is the edge that is nearer to one.
    narrowest = math.cos(math.radians(min(89.9, max(abs(south_edge), abs(north_edge)))))
    east = north / narrowest
    if east >= 179:
        spans = [(0, CELLS_AROUND - 1)]
    else:
        first, last = _column(place.lon - east), _column(place.lon + east)
        spans = [(first, last)] if first <= last else [(0, last), (first, CELLS_AROUND - 1)]
    return [
        (row * CELLS_AROUND + first, row * CELLS_AROUND + last)
        for row in range(_row(south_edge), _row(north_edge) + 1)
        for first, last in spans
    ]


def _row(lat: float) -> int:
    return min(180 * CELLS_A_DEGREE - 1, math.floor((lat + 90) * CELLS_A_DEGREE))


def _column(lon: float) -> int:
    """Around the globe: 180° east is 180° west."""
    return math.floor((lon + 180) * CELLS_A_DEGREE) % CELLS_AROUND
