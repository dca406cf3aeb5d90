"""From what changed to what is told of it."""

from collections.abc import Iterable
from typing import Literal

from catraca.domains.rides.model import Accepted, Offer, Ride
from catraca.domains.rides.store.attempts import Won
from catraca.events import DriverAccepted, DriverTimeout, OfferCanceled, RideAccepted, RideCancelled
from catraca.events.rides import Point
from catraca.platform.event import Event

LostBecause = Literal["accepted_by_another_driver", "ride_canceled", "no_drivers_available"]


def pickup_of(ride: Ride) -> Point:
    return Point(ride.pickup_lat, ride.pickup_lon)


def acceptance(accepted: Accepted, won: Won) -> list[Event]:
    """The ride is taken, the offer answered, and each of the others gone."""
    return [
        RideAccepted(
            ride_id=accepted.ride_id,
            round=won.round,
            driver_id=accepted.driver_id,
            passenger_id=accepted.passenger_id,
            offer_id=won.offer_id,
            accepted_at=accepted.accepted_at,
            pickup_lat=accepted.pickup_lat,
            pickup_lon=accepted.pickup_lon,
        ),
        DriverAccepted(
            offer_id=won.offer_id,
            ride_id=accepted.ride_id,
            driver_id=accepted.driver_id,
            round=won.round,
            attempt=won.attempt,
            rider_id=accepted.passenger_id,
            accepted_at=accepted.accepted_at,
        ),
        *(
            OfferCanceled(
                offer_id=lost.id,
                ride_id=accepted.ride_id,
                driver_id=lost.driver_id,
                round=won.round,
                attempt=lost.attempt,
                reason="accepted_by_another_driver",
            )
            for lost in won.lost
        ),
    ]


def lost_offers(offers: Iterable[Offer], reason: LostBecause) -> list[Event]:
    return [
        OfferCanceled(
            offer_id=offer.id,
            ride_id=offer.ride_id,
            driver_id=offer.driver_id,
            round=offer.round,
            attempt=offer.attempt,
            reason=reason,
        )
        for offer in offers
    ]


def timeouts(offers: Iterable[Offer], *, ttl_expired: bool) -> list[Event]:
    events: list[Event] = []
    for offer in offers:
        assert offer.responded_at is not None
        events.append(
            DriverTimeout(
                offer_id=offer.id,
                ride_id=offer.ride_id,
                driver_id=offer.driver_id,
                round=offer.round,
                attempt=offer.attempt,
                timeout_at=offer.responded_at,
                ttl_expired=ttl_expired,
            )
        )
    return events


def cancellation(ride: Ride, *, by: str, reason: str) -> RideCancelled:
    return RideCancelled(
        ride_id=ride.id,
        round=ride.round,
        rider_id=ride.passenger_id,
        driver_id=ride.accepted_driver_id,
        cancelled_by=by,
        reason=reason,
        cancelled_at=ride.updated_at,
    )
