"""Events about offers and about the search for a driver."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from catraca.events.rides import DriverId, FareCents, Point, RiderId, Round
from catraca.platform.event import Event

AttemptNumber = Annotated[int, Meta(description="Number of the offer, counted over all rounds of the ride.")]


class OfferEvent(Event, frozen=True, kw_only=True):
    """Each offer is its own aggregate, so that offers of one ride are published in parallel."""

    exchange = "matching.events"
    about = "offer_id"

    offer_id: UUID
    ride_id: Annotated[UUID, Meta(description="The ride.")]
    driver_id: DriverId
    round: Round
    attempt: AttemptNumber


class CandidateFound(OfferEvent, frozen=True, kw_only=True, tag="matching.candidate_found"):
    """The ride is offered to a driver until `expires_at`. Until then the driver gets no other offer."""

    rider_id: RiderId
    expires_at: Annotated[datetime, Meta(description="End of the offer, by the database's clock.")]
    pickup: Annotated[Point, Meta(description="Pickup, rounded to about a hundred metres.")]
    distance_meters: Annotated[int | None, Meta(description="Length of the ride.", examples=[4200])] = None
    estimated_fare_cents: FareCents | None = None
    pickup_distance_meters: Annotated[
        int | None, Meta(description="Straight line from the driver to the pickup.", examples=[1200])
    ] = None
    previous_rejections: Annotated[
        tuple[UUID, ...], Meta(description="Drivers who refused before, the last 20.")
    ] = ()
    previous_timeout: Annotated[
        tuple[UUID, ...], Meta(description="Drivers who did not answer before, the last 20.")
    ] = ()


class OfferSent(OfferEvent, frozen=True, kw_only=True, tag="matching.offer_sent"):
    """A device of the driver acknowledged the offer. Once per offer, also with several devices."""

    sent_at: Annotated[datetime, Meta(description="Time of the acknowledgement.")]


class DriverAccepted(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_accepted"):
    """The offer was accepted, and with it the ride."""

    rider_id: RiderId
    accepted_at: Annotated[datetime, Meta(description="Time of the event.")]


class DriverRejected(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_rejected"):
    """The driver refused the offer."""

    rejected_at: Annotated[datetime, Meta(description="Time of the event.")]
    reason: Annotated[str | None, Meta(description="A code, if the driver gave one.")] = None


class DriverTimeout(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_timeout"):
    """The driver did not answer in time, or went offline with an open offer."""

    # In version 1, `ttl_expired` was true if the offer expired.
    version = 2

    timeout_at: Annotated[datetime, Meta(description="Time of the event.")]
    ttl_expired: Annotated[
        bool,
        Meta(
            description="True if the driver's lock ended before the offer. Always false: a lock outlives its"
            " offer.",
            examples=[False],
        ),
    ] = False
    reason: Annotated[
        str | None,
        Meta(
            description="`driver_offline`, or null if the driver did not answer.", examples=["driver_offline"]
        ),
    ] = None


class OfferCanceled(OfferEvent, frozen=True, kw_only=True, tag="offer.canceled"):
    """The offer was withdrawn without an act of the driver."""

    reason: Annotated[
        Literal["accepted_by_another_driver", "ride_canceled", "no_drivers_available"],
        Meta(description="The reason."),
    ]


class SearchEvent(Event, frozen=True, kw_only=True):
    """Published in one order with the events of the ride."""

    exchange = "matching.events"
    about = "ride_id"

    ride_id: UUID
    round: Round


class MatchingRetry(SearchEvent, frozen=True, kw_only=True, tag="matching.retry"):
    """Another search is planned."""

    search: Annotated[int, Meta(description="Number of the next search in this round.", examples=[2])]
    radius_meters: Annotated[int, Meta(description="Radius of the next search.", examples=[7500])]
    retry_at: Annotated[
        datetime, Meta(description="Planned time; earlier if a driver near by becomes available.")
    ]
    reason: Annotated[
        Literal["nobody_near", "all_asked", "snatched", "index_away"],
        Meta(
            description="No driver was near; all drivers near by were asked; other rides were faster; or"
            " Redis was away."
        ),
    ]


class SearchEnded(SearchEvent, frozen=True, kw_only=True):
    """A search ended without a driver."""

    rider_id: RiderId
    pickup: Annotated[Point, Meta(description="Pickup, rounded to about a hundred metres.")]
    started_at: Annotated[datetime, Meta(description="Start of the search in this round.")]
    timeout_at: Annotated[datetime, Meta(description="End of the search.")]
    total_attempts: Annotated[int, Meta(description="Number of offers.", examples=[10])]
    searches: Annotated[int, Meta(description="Number of searches.", examples=[7])]
    rejected_drivers: Annotated[tuple[UUID, ...], Meta(description="Drivers who refused, the last 20.")] = ()
    timeout_drivers: Annotated[
        tuple[UUID, ...], Meta(description="Drivers who did not answer, the last 20.")
    ] = ()
    search_radius_km: Annotated[float, Meta(description="Radius of the last search.", examples=[15])]
    reason: Annotated[
        Literal["no_drivers_in_area", "nobody_accepted"],
        Meta(description="No driver was found, or no driver accepted."),
    ]


class MatchingTimeout(SearchEnded, frozen=True, kw_only=True, tag="matching.timeout"):
    """The time for the search ended while an offer was open."""


class NoDriversAvailable(SearchEnded, frozen=True, kw_only=True, tag="matching.no_drivers_available"):
    """The time for the search ended without an open offer."""
