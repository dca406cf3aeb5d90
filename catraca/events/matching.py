"""What is told about offers: made, answered, lapsed, lost."""

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
    previous_rejections: Annotated[
        tuple[UUID, ...], Meta(description="Who refused before, the last 20 of them.")
    ] = ()
    previous_timeout: Annotated[
        tuple[UUID, ...], Meta(description="Who did not answer before, the last 20 of them.")
    ] = ()


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
