"""Positions of drivers, and the distance between them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class TrackPoint:
    """A driver's position; the time is the phone's."""

    driver_id: UUID
    lat: float
    lng: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Track:
    """The distance by the pings, and the time for which there were pings."""

    meters: float = 0
    covered_seconds: float = 0
