"""A town: positions, times, and the state that its passengers and drivers share."""

import asyncio
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from tests.storms.callers import Caller, calling
from tests.storms.fleet import StormFleet
from tests.storms.matching.ledger import TownLedger

CENTER = (-12.9777, -38.5016)
# Drivers are spread over this area; searches begin small, so that most must be widened.
TOWN_DEGREES = 0.02
# This share of rides begins far from all drivers.
FAR_AWAY_DEGREES = 0.5
FAR_AWAY_SHARE = 0.04
PACES = (-0.0002, 0.0002)
# A whole town shares few processors; every driver must stay online, however long a ping takes.
ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times of a town, shortened to seconds."""

    offer_seconds: float = 3
    retry_seconds: float = 1
    search_seconds: float = 20
    presence_seconds: float = 25
    ping_seconds: tuple[float, float] = (5, 10)
    break_seconds: tuple[float, float] = (0.5, 3)
    # A driver's time between two steps of a ride.
    drive_seconds: tuple[float, float] = (0.3, 1.2)
    watch_seconds: float = 2
    # A passenger who changes plans does so within this time.
    fickle_seconds: float = 8

    def settings(self, *, offers_at_once: int) -> dict[str, str]:
        return {
            "CATRACA_OFFERS_AT_ONCE": str(offers_at_once),
            "CATRACA_DRIVER_RESPONSE_TIMEOUT": f"{self.offer_seconds:.1f}",
            "CATRACA_SEARCH_RETRY_INTERVAL": f"{self.retry_seconds:.1f}",
            "CATRACA_GLOBAL_MATCHING_TIMEOUT": f"{self.search_seconds:.1f}",
            "CATRACA_PRESENCE_TIMEOUT": f"{self.presence_seconds:.1f}",
            "CATRACA_IDLE_AFTER": f"{self.presence_seconds:.1f}",
            "CATRACA_POSITION_INTERVAL": f"{min(self.ping_seconds):.1f}",
            "CATRACA_LOCK_TTL": "1",
            # A few passengers request and cancel many rides.
            "CATRACA_FREE_CANCELLATIONS": "1000",
            "CATRACA_MAX_ATTEMPTS_PER_SEARCH": "4",
            "CATRACA_INITIAL_SEARCH_RADIUS": "1000",
            "CATRACA_RADIUS_INCREMENT": "1000",
            "CATRACA_MAX_SEARCH_RADIUS": "6000",
        }


@dataclass
class Town:
    here: StormFleet
    times: Times
    ledger: TownLedger = field(default_factory=TownLedger)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def calling(self) -> AbstractAsyncContextManager[Caller]:
        return calling(self.here.ports, self.here.ledger, answer_seconds=ANSWER_SECONDS)


@dataclass
class Spot:
    """A position."""

    lat: float
    lng: float

    def wander(self, chance: random.Random) -> None:
        self.lat += chance.uniform(*PACES)
        self.lng += chance.uniform(*PACES)

    def body(self) -> dict[str, float]:
        return {"lat": self.lat, "lng": self.lng}


def somewhere(chance: random.Random) -> Spot:
    lat, lng = (degrees + chance.uniform(-TOWN_DEGREES, TOWN_DEGREES) for degrees in CENTER)
    return Spot(lat, lng)


def way_to_go(chance: random.Random) -> dict[str, float]:
    """A random pickup and dropoff."""
    pickup, dropoff = somewhere(chance), somewhere(chance)
    if chance.random() < FAR_AWAY_SHARE:
        pickup.lat += FAR_AWAY_DEGREES
    return {
        "pickup_lat": pickup.lat,
        "pickup_lon": pickup.lng,
        "dropoff_lat": dropoff.lat,
        "dropoff_lon": dropoff.lng,
    }
