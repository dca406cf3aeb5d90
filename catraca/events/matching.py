"""What is told about offers (made, answered, lapsed, lost) and about the search for a driver."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from catraca.events.rides import DriverId, FareCents, Point, RiderId, Round
from catraca.platform.event import Event

AttemptNumber = Annotated[int, Meta(description="The ride's offers are counted, through all its rounds.")]


class OfferEvent(Event, frozen=True, kw_only=True):
    """Each offer is an aggregate of its own, so that many of one ride are told side by side."""

    exchange = "matching.events"
    about = "offer_id"

    offer_id: UUID
    ride_id: Annotated[UUID, Meta(description="The ride.")]
    driver_id: DriverId
    round: Round
    attempt: AttemptNumber


class CandidateFound(OfferEvent, frozen=True, kw_only=True, tag="matching.candidate_found"):
    """A driver may have the ride until `expires_at`, and no other ride meanwhile."""

    rider_id: RiderId
    expires_at: Annotated[datetime, Meta(description="By the database's clock; then it is too late.")]
    pickup: Annotated[Point, Meta(description="Where from, to a hundred metres or so.")]
    distance_meters: Annotated[int | None, Meta(description="How far the ride goes.", examples=[4200])] = None
    estimated_fare_cents: FareCents | None = None
    pickup_distance_meters: Annotated[
        int | None, Meta(description="From the driver to there, as the crow flies.", examples=[1200])
    ] = None
    previous_rejections: Annotated[
        tuple[UUID, ...], Meta(description="Who refused before, the last 20 of them.")
    ] = ()
    previous_timeout: Annotated[
        tuple[UUID, ...], Meta(description="Who did not answer before, the last 20 of them.")
    ] = ()


class OfferSent(OfferEvent, frozen=True, kw_only=True, tag="matching.offer_sent"):
    """The driver's device has said that it has the offer: once an offer, however many devices there are."""

    sent_at: Annotated[datetime, Meta(description="When it said so.")]


class DriverAccepted(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_accepted"):
    """The offer was accepted, and with it the ride."""

    rider_id: RiderId
    accepted_at: Annotated[datetime, Meta(description="When.")]


class DriverRejected(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_rejected"):
    """The driver does not want the ride."""

    rejected_at: Annotated[datetime, Meta(description="When.")]
    reason: Annotated[str | None, Meta(description="A code, if the driver gave one.")] = None


class DriverTimeout(OfferEvent, frozen=True, kw_only=True, tag="matching.driver_timeout"):
    """The driver did not answer in time, or went offline with the offer open."""

    timeout_at: Annotated[datetime, Meta(description="When.")]
    ttl_expired: Annotated[
        bool, Meta(description="Whether the offer's time ran out; false when the driver went offline.")
    ]


class OfferCanceled(OfferEvent, frozen=True, kw_only=True, tag="offer.canceled"):
    """The offer is gone, by no act of the driver's."""

    reason: Annotated[
        Literal["accepted_by_another_driver", "ride_canceled", "no_drivers_available"],
        Meta(description="Why."),
    ]


class SearchEvent(Event, frozen=True, kw_only=True):
    """Told in one order with what is told about the ride."""

    exchange = "matching.events"
    about = "ride_id"

    ride_id: UUID
    round: Round


class MatchingRetry(SearchEvent, frozen=True, kw_only=True, tag="matching.retry"):
    """A driver is looked for once more."""

    search: Annotated[int, Meta(description="The number of the search to come, in this round.", examples=[2])]
    radius_meters: Annotated[int, Meta(description="How far out it looks.", examples=[7500])]
    retry_at: Annotated[datetime, Meta(description="When; sooner, should a driver come online near by.")]
    reason: Annotated[
        Literal["nobody_near", "all_asked", "snatched", "index_away"],
        Meta(
            description="Nobody was near; all who were have been asked; others were faster; or nobody knows"
            " who is near."
        ),
    ]


class SearchEnded(SearchEvent, frozen=True, kw_only=True):
    """What both ends of a search without a driver tell."""

    rider_id: RiderId
    pickup: Annotated[Point, Meta(description="Where from, to a hundred metres or so.")]
    started_at: Annotated[datetime, Meta(description="Since when a driver was looked for in this round.")]
    timeout_at: Annotated[datetime, Meta(description="When it ended.")]
    total_attempts: Annotated[int, Meta(description="How many offers were made.", examples=[10])]
    searches: Annotated[int, Meta(description="How many searches there were.", examples=[7])]
    rejected_drivers: Annotated[tuple[UUID, ...], Meta(description="Who refused, the last 20 of them.")] = ()
    timeout_drivers: Annotated[
        tuple[UUID, ...], Meta(description="Who did not answer, the last 20 of them.")
    ] = ()
    search_radius_km: Annotated[float, Meta(description="How far out the last search looked.", examples=[15])]
    reason: Annotated[
        Literal["no_drivers_in_area", "nobody_accepted"],
        Meta(description="Whether nobody was found, or nobody wanted the ride."),
    ]


class MatchingTimeout(SearchEnded, frozen=True, kw_only=True, tag="matching.timeout"):
    """The time for finding a driver ran out while somebody was being asked."""


class NoDriversAvailable(SearchEnded, frozen=True, kw_only=True, tag="matching.no_drivers_available"):
    """The time for finding a driver ran out, and nobody was being asked."""
