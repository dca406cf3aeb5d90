"""From what was decided to what is told of it."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from catraca.domains.matching.model import TellRetry
from catraca.domains.rides import EndedSearch, Response, Ride
from catraca.events import MatchingRetry, MatchingTimeout, NoDriversAvailable
from catraca.events.rides import Point

TOLD_AT_MOST = 20


def retry(ride: Ride, decided: TellRetry) -> MatchingRetry:
    return MatchingRetry(
        ride_id=ride.id,
        round=ride.round,
        search=decided.search,
        radius_meters=decided.radius_meters,
        retry_at=decided.at,
        reason=decided.reason,
    )


def rough_pickup(ride: Ride) -> Point:
    rough = ride.without_doors()
    return Point(rough.pickup_lat, rough.pickup_lon)


class _Ended(TypedDict):
    ride_id: UUID
    round: int
    rider_id: UUID
    pickup: Point
    started_at: datetime
    timeout_at: datetime
    total_attempts: int
    searches: int
    rejected_drivers: tuple[UUID, ...]
    timeout_drivers: tuple[UUID, ...]
    search_radius_km: float


def search_ended(
    ended: EndedSearch, *, started_at: datetime, searches: int, radius_meters: int
) -> MatchingTimeout | NoDriversAvailable:
    """Which of the two depends on whether somebody could still have accepted."""
    ride = ended.ride
    said: _Ended = {
        "ride_id": ride.id,
        "round": ride.round,
        "rider_id": ride.passenger_id,
        "pickup": rough_pickup(ride),
        "started_at": started_at,
        "timeout_at": ride.updated_at,
        "total_attempts": len(ended.offers),
        "searches": searches,
        "rejected_drivers": _who(ended, "REJECTED"),
        "timeout_drivers": _who(ended, "EXPIRED"),
        "search_radius_km": radius_meters / 1000,
    }
    if ended.was_asking:
        return MatchingTimeout(**said, reason="nobody_accepted")
    return NoDriversAvailable(**said, reason="no_drivers_in_area")


def _who(ended: EndedSearch, response: Response) -> tuple[UUID, ...]:
    return tuple(offer.driver_id for offer in ended.offers if offer.response == response)[-TOLD_AT_MOST:]
