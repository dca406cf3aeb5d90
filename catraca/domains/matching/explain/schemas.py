"""The HTTP form of a ride's history."""

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.location import Source
from catraca.domains.matching.candidates.model import Cause, Outcome, Verdict
from catraca.domains.matching.explain.service import Explanation, LineKind, TimelinePart, TracedOffer
from catraca.domains.rides import Actor, Response, Status

RIDE_ID = "0198a8b2-3c00-7000-8000-000000000001"
NEAR_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
DRIVING_ID = "0198a7f0-6b1c-7d52-8e1b-4c2d3e5f6071"
OFFER_ID = "0198a8b2-3c00-7000-8000-000000000002"
ASKED_AT, REFUSED_AT, OVER_AT = "2025-08-14T12:00:00Z", "2025-08-14T12:00:07Z", "2025-08-14T12:05:00Z"
# In the example one driver refused the ride while another was driving.
FIRST_SEARCH: JsonDict = {
    "round": 1,
    "search": 1,
    "at": ASKED_AT,
    "radius_meters": 5000,
    "source": "redis",
    "cause": "begun",
    "outcome": "asked",
    "next_at": None,
    "verdicts": {"driving": 1, "offered": 1},
    "seen": [
        {"driver_id": DRIVING_ID, "distance_meters": 420, "verdict": "driving", "offer_id": None},
        {"driver_id": NEAR_ID, "distance_meters": 1210, "verdict": "offered", "offer_id": OFFER_ID},
    ],
}
LAST_SEARCH: JsonDict = {
    "round": 1,
    "search": 2,
    "at": REFUSED_AT,
    "radius_meters": 7500,
    "source": "redis",
    "cause": "all_asked",
    "outcome": "nobody_near",
    "next_at": "2025-08-14T12:00:37Z",
    "verdicts": {"driving": 1, "refused_before": 1},
    "seen": [
        {"driver_id": DRIVING_ID, "distance_meters": 460, "verdict": "driving", "offer_id": None},
        {"driver_id": NEAR_ID, "distance_meters": 1190, "verdict": "refused_before", "offer_id": None},
    ],
}
OFFER: JsonDict = {
    "offer_id": OFFER_ID,
    "driver_id": NEAR_ID,
    "attempt": 1,
    "round": 1,
    "offered_at": ASKED_AT,
    "expires_at": "2025-08-14T12:00:20Z",
    "response": "REJECTED",
    "responded_at": REFUSED_AT,
    "reason": "too_far",
    "by": "search",
    "search": 1,
    "pickup_distance_meters": 1210,
}
STORY: list[JsonDict] = [
    {"at": ASKED_AT, "what": "requested", "round": 1, "by": "passenger"},
    {
        "at": ASKED_AT,
        "what": "searched",
        "round": 1,
        "search": 1,
        "radius_meters": 5000,
        "source": "redis",
        "cause": "begun",
        "outcome": "asked",
        "seen": 2,
        "verdicts": {"driving": 1, "offered": 1},
    },
    {
        "at": ASKED_AT,
        "what": "offered",
        "round": 1,
        "search": 1,
        "until": "2025-08-14T12:00:20Z",
        "driver_id": NEAR_ID,
        "offer_id": OFFER_ID,
        "attempt": 1,
        "distance_meters": 1210,
        "by": "search",
    },
    {
        "at": REFUSED_AT,
        "what": "refused",
        "round": 1,
        "driver_id": NEAR_ID,
        "offer_id": OFFER_ID,
        "attempt": 1,
        "reason": "too_far",
    },
    {
        "at": REFUSED_AT,
        "what": "searched",
        "round": 1,
        "search": 2,
        "radius_meters": 7500,
        "source": "redis",
        "cause": "all_asked",
        "outcome": "nobody_near",
        "seen": 2,
        "verdicts": {"driving": 1, "refused_before": 1},
    },
    {
        "at": REFUSED_AT,
        "what": "waits",
        "round": 1,
        "search": 2,
        "outcome": "nobody_near",
        "until": "2025-08-14T12:00:37Z",
    },
    {"at": OVER_AT, "what": "canceled", "round": 1, "by": "system", "reason": "no_drivers_available"},
]
STEP: JsonDict = {
    "seq": 1,
    "at": ASKED_AT,
    "from_status": None,
    "to_status": "REQUESTED",
    "round": 1,
    "actor": "passenger",
    "actor_id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f61",
    "reason": None,
    "news": "ride.requested",
}


class OutputModel(BaseModel):
    model_config = ConfigDict(from_attributes=True, populate_by_name=True)


class StepOut(OutputModel):
    seq: int
    at: datetime
    from_status: Status | None
    to_status: Status
    round: int
    actor: Actor
    actor_id: UUID | None
    reason: str | None
    news: str = Field(description="The routing key of the event that was published.")


class TracedOfferOut(OutputModel):
    offer_id: UUID = Field(validation_alias="id")
    driver_id: UUID
    attempt: int = Field(description="Number of the offer, counted over all rounds of the ride.")
    round: int
    offered_at: datetime
    expires_at: datetime
    response: Response | None = None
    responded_at: datetime | None = None
    reason: str | None = None
    by: Literal["search", "operator"] | None = Field(
        default=None,
        description="Who made the offer; null if the searches of that time are not in the answer.",
    )
    search: int | None = Field(default=None, description="The number of the search that made it.")
    pickup_distance_meters: int | None = Field(
        default=None, description="The driver's distance from the pickup in that search."
    )

    @classmethod
    def of(cls, traced: TracedOffer) -> Self:
        out = cls.model_validate(traced.offer)
        out.by, out.search, out.pickup_distance_meters = traced.by, traced.search, traced.distance_meters
        return out


class SeenOut(OutputModel):
    driver_id: UUID
    distance_meters: int = Field(description="Straight line from the pickup.")
    verdict: Verdict
    offer_id: UUID | None = Field(default=None, description="Set for drivers with an offer.")


class SearchOut(OutputModel):
    """One search for drivers."""

    round: int
    search: int = Field(
        description="Number of the search in its round; the same search can run several times."
    )
    at: datetime
    radius_meters: int
    source: Source = Field(description="Redis; or PostgreSQL, while Redis was away.")
    cause: Cause = Field(
        description="Why the search ran: the round began; an offer ended; the wait was over; a driver near by"
        " became available; or the search before had no driver left to ask."
    )
    outcome: Outcome = Field(
        description="`asked`: an offer was made. Else the reason: `nobody_near`; `all_asked`, the next search"
        " follows at once; `snatched`, other rides were faster; `index_away`, no driver was found while Redis"
        " was away; `waits_on`, woken early without a candidate."
    )
    next_at: datetime | None = Field(description="When the next search is planned.")
    verdicts: dict[Verdict, int] = Field(
        description="Number of drivers by verdict: `offered`; can be asked `next`; has an open offer of this"
        " ride (`asked_now`); is `driving`; `held` by another ride's offer; `may_not_drive`; has a `stale`"
        " position; is `outside_fence`, not of a community that is asked; `refused_before`, `silent_before`"
        " or `gave_it_up` (this ride); `own_ride`; `too_far`; `locked` or `snatched` by another ride at that"
        " moment."
    )
    seen: list[SeenOut] = Field(
        description="The nearest 50 drivers, and all drivers with an offer, nearest first."
    )


def _optional(description: str) -> Any:
    return Field(default=None, exclude_if=lambda value: value is None, description=description)


class LineOut(OutputModel):
    """One thing that happened. Fields that do not apply are left out."""

    at: datetime
    what: LineKind
    round: int
    search: int | None = _optional("The number of the search.")
    radius_meters: int | None = _optional("Its radius.")
    source: Source | None = _optional("Where drivers were searched.")
    cause: Cause | None = _optional("Why it ran.")
    outcome: Outcome | None = _optional("Its result.")
    seen: int | None = _optional("How many drivers it saw.")
    verdicts: dict[Verdict, int] | None = _optional("Number of drivers by verdict.")
    until: datetime | None = _optional("End of the offer, or of the wait.")
    driver_id: UUID | None = _optional("The driver.")
    offer_id: UUID | None = _optional("The offer.")
    attempt: int | None = _optional("Number of the offer in the ride.")
    distance_meters: int | None = _optional("The driver's distance from the pickup.")
    by: Actor | Literal["search"] | None = _optional("Who did this.")
    reason: str | None = _optional("A code, if one was given.")


class TimelineOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ride_id": RIDE_ID,
                    "status": "CANCELED",
                    "round": 1,
                    "deadline_at": OVER_AT,
                    "next_search_at": None,
                    "story": [*STORY],
                    "searches": [FIRST_SEARCH, LAST_SEARCH],
                    "offers": [OFFER],
                    "steps": [STEP],
                    "cut": [],
                }
            ]
        }
    )

    ride_id: UUID
    status: Status
    round: int
    deadline_at: datetime
    next_search_at: datetime | None = Field(
        description="When drivers are searched again, if no driver is left to ask now."
    )
    story: list[LineOut] = Field(description="Searches, offers and steps in one list, by time.")
    searches: list[SearchOut] = Field(
        description="The last 100 searches: the drivers seen, and why each was not asked."
    )
    offers: list[TracedOfferOut] = Field(description="All offers with their answers.")
    steps: list[StepOut] = Field(description="Every status change: who made it, and why.")
    cut: list[TimelinePart] = Field(
        description="Parts that are incomplete: over the limit, or past their retention."
    )

    @classmethod
    def of(cls, explanation: Explanation) -> Self:
        ride = explanation.ride
        return cls(
            ride_id=ride.id,
            status=ride.status,
            round=ride.round,
            deadline_at=ride.deadline_at,
            next_search_at=explanation.next_search_at,
            story=[LineOut.model_validate(line) for line in explanation.story],
            searches=[SearchOut.model_validate(search) for search in explanation.searches],
            offers=[TracedOfferOut.of(offer) for offer in explanation.offers],
            steps=[StepOut.model_validate(step) for step in explanation.steps],
            cut=list(explanation.cut),
        )
