"""What the route of matching gives: a ride's whole history, and why somebody came or nobody."""

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.location import Source
from catraca.domains.matching.service.explaining import Explanation, Part, TracedOffer, What
from catraca.domains.matching.store.searches import Cause, Outcome, Verdict
from catraca.domains.rides import Actor, OfferOut, Status, StepOut

RIDE_ID = "0198a8b2-3c00-7000-8000-000000000001"
NEAR_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
DRIVING_ID = "0198a7f0-6b1c-7d52-8e1b-4c2d3e5f6071"
OFFER_ID = "0198a8b2-3c00-7000-8000-000000000002"
ASKED_AT, REFUSED_AT, OVER_AT = "2025-08-14T12:00:00Z", "2025-08-14T12:00:07Z", "2025-08-14T12:05:00Z"
# A ride that one driver refused while another was driving.
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


class Told(BaseModel):
    """An answer whose fields are those of what it tells."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)


class TracedOfferOut(OfferOut):
    by: Literal["search", "operator"] | None = Field(
        default=None, description="Who made it; null where the searches of that time are not told."
    )
    search: int | None = Field(default=None, description="The number of the search that made it.")
    pickup_distance_meters: int | None = Field(
        default=None, description="How far away that search found the driver."
    )

    @classmethod
    def of(cls, traced: TracedOffer) -> Self:
        told = cls.model_validate(traced.offer)
        told.by, told.search, told.pickup_distance_meters = traced.by, traced.search, traced.distance_meters
        return told


class SeenOut(Told):
    driver_id: UUID
    distance_meters: int = Field(description="From where the ride begins, as the crow flies.")
    verdict: Verdict
    offer_id: UUID | None = Field(default=None, description="Of who was offered the ride.")


class SearchOut(Told):
    """One look around for drivers."""

    round: int
    search: int = Field(description="Searches are counted in each round; one may look several times.")
    at: datetime
    radius_meters: int
    source: Source = Field(description="The map; or PostgreSQL, while the map was away.")
    cause: Cause = Field(
        description="What led to it: the round began; an offer ended; the wait was over; a driver came online"
        " or free near by; or the search before had nobody left to ask."
    )
    outcome: Outcome = Field(
        description="Somebody was `asked`, or why nobody was: `nobody_near`; `all_asked`, and the next"
        " search follows at once; `snatched`, other rides were faster; `index_away`, nobody was found while"
        " the map was away; or `waits_on`, woken in vain."
    )
    next_at: datetime | None = Field(description="When to look again, should nothing happen before.")
    verdicts: dict[Verdict, int] = Field(
        description="Whom it saw, counted: `offered`; could be asked `next`; has this ride's offer"
        " (`asked_now`); is `driving`; `held` by another ride's offer; `may_not_drive`; has a `stale`"
        " position; is `outside_fence`, of no community that is asked;"
        " `refused_before`, `silent_before` or `gave_it_up` (this ride); `own_ride`; `too_far`;"
        " `locked` or `snatched` by another ride that moment."
    )
    seen: list[SeenOut] = Field(
        description="The nearest 50 of them, and everybody who was offered the ride, the nearest first."
    )


def _if_any(description: str) -> Any:
    return Field(default=None, exclude_if=lambda value: value is None, description=description)


class LineOut(Told):
    """What happened then. Fields that do not belong to it are left out."""

    at: datetime
    what: What
    round: int
    search: int | None = _if_any("The number of the search.")
    radius_meters: int | None = _if_any("How far out it looked.")
    source: Source | None = _if_any("Where it looked.")
    cause: Cause | None = _if_any("What led to it.")
    outcome: Outcome | None = _if_any("What it came to.")
    seen: int | None = _if_any("How many drivers it came across.")
    verdicts: dict[Verdict, int] | None = _if_any("What was found of them.")
    until: datetime | None = _if_any("How long the offer was to last, or the wait.")
    driver_id: UUID | None = _if_any("Which driver.")
    offer_id: UUID | None = _if_any("Which offer.")
    attempt: int | None = _if_any("The ride's offers are counted.")
    distance_meters: int | None = _if_any("How far away the driver was.")
    by: Actor | Literal["search"] | None = _if_any("Who did it.")
    reason: str | None = _if_any("A code, if there was one.")


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
        description="While nobody more can be asked: when drivers are looked for again."
    )
    story: list[LineOut] = Field(description="Everything below in one list, as it happened.")
    searches: list[SearchOut] = Field(
        description="Each look around, whom it saw, and why they were not asked: the last 100."
    )
    offers: list[TracedOfferOut] = Field(description="Whom it was offered to, and what became of that.")
    steps: list[StepOut] = Field(description="Every state the ride was in, who moved it, and why.")
    cut: list[Part] = Field(
        description="What there was more of than is told: too many, or past their retention."
    )

    @classmethod
    def of(cls, told: Explanation) -> Self:
        ride = told.ride
        return cls(
            ride_id=ride.id,
            status=ride.status,
            round=ride.round,
            deadline_at=ride.deadline_at,
            next_search_at=told.next_search_at,
            story=[LineOut.model_validate(line) for line in told.story],
            searches=[SearchOut.model_validate(search) for search in told.searches],
            offers=[TracedOfferOut.of(offer) for offer in told.offers],
            steps=[StepOut.model_validate(step) for step in told.steps],
            cut=list(told.cut),
        )
