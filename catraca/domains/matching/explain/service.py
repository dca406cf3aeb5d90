"""The history of a ride: its status changes, searches and offers in the order in which they happened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from catraca.domains import rides
from catraca.domains.location import Source
from catraca.domains.matching.candidates import store as search_store
from catraca.domains.matching.candidates.model import Cause, Outcome, SearchRecord, SeenDriver, Verdict
from catraca.domains.matching.search import store
from catraca.domains.matching.search.model import Matching
from catraca.domains.rides import Actor, Offer, Ride, RideId, Status, Step, Timeline
from catraca.platform.database import Db

MAX_SEARCHES = 100

LineKind = Literal[
    "requested",
    "woken",
    "searched",
    "waits",
    "offered",
    "refused",
    "silent",
    "withdrawn",
    "accepted",
    "given_up",
    "arriving",
    "started",
    "completed",
    "paid",
    "payment_expired",
    "canceled",
    "expired",
]
TimelinePart = Literal["steps", "offers", "searches"]
# Without `SEARCHING` and `OFFERED`: the offers have more details.
LINE_OF_STATUS: Final[Mapping[Status, LineKind]] = {
    "REQUESTED": "requested",
    "ACCEPTED": "accepted",
    "ARRIVING": "arriving",
    "STARTED": "started",
    "COMPLETED": "completed",
    "PAID": "paid",
    "PAYMENT_EXPIRED": "payment_expired",
    "CANCELED": "canceled",
    "EXPIRED": "expired",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that happened. A field is None if it does not apply or is not known."""

    at: datetime
    what: LineKind
    round: int
    search: int | None = None
    radius_meters: int | None = None
    source: Source | None = None
    cause: Cause | None = None
    outcome: Outcome | None = None
    seen: int | None = None
    verdicts: Mapping[Verdict, int] | None = None
    until: datetime | None = None
    driver_id: UUID | None = None
    offer_id: UUID | None = None
    attempt: int | None = None
    distance_meters: int | None = None
    by: Actor | Literal["search"] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TracedOffer:
    """An offer with the search that made it and the driver's distance in that search."""

    offer: Offer
    by: Literal["search", "operator"] | None
    search: int | None = None
    distance_meters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    ride: Ride
    steps: Sequence[Step]
    offers: Sequence[TracedOffer]
    searches: Sequence[SearchRecord]
    story: Sequence[Line]
    next_search_at: datetime | None
    # Parts that are incomplete: over the limit, or past their retention.
    cut: Sequence[TimelinePart]


async def explain_ride(db: Db, ride_id: RideId) -> Explanation:
    """Read the history of a ride. Raises `RideNotFound`."""
    timeline = await rides.read_timeline(db, ride_id)
    matching = (await store.read_matchings(db, [ride_id])).get(ride_id)
    searches = await search_store.read_searches(db, ride_id, limit=MAX_SEARCHES + 1)
    cut: list[TimelinePart] = [*timeline.cut]
    if len(searches) > MAX_SEARCHES or (not searches and _has_searched(matching)):
        cut.append("searches")
    del searches[:-MAX_SEARCHES]
    offers = _trace(timeline.offers, searches, complete="searches" not in cut)
    return Explanation(
        ride=timeline.ride,
        steps=timeline.steps,
        offers=offers,
        searches=searches,
        story=_story(timeline, searches, offers),
        next_search_at=matching.next_search_at if matching else None,
        cut=cut,
    )


def _has_searched(matching: Matching | None) -> bool:
    """Return True if there were searches, even if their records are past the retention."""
    return matching is not None and (matching.search > 1 or matching.offers > 0)


def _trace(offers: Sequence[Offer], searches: Sequence[SearchRecord], *, complete: bool) -> list[TracedOffer]:
    """Find the search of each offer. If all searches are known, offers of no search are an operator's."""
    made: dict[UUID, tuple[SearchRecord, SeenDriver]] = {
        seen.offer_id: (search, seen) for search in searches for seen in search.seen if seen.offer_id
    }
    traced: list[TracedOffer] = []
    for offer in offers:
        if offer.id in made:
            search, seen = made[offer.id]
            traced.append(TracedOffer(offer, "search", search.search, seen.distance_meters))
        else:
            traced.append(TracedOffer(offer, "operator" if complete else None))
    return traced


def _story(timeline: Timeline, searches: Sequence[SearchRecord], offers: Sequence[TracedOffer]) -> list[Line]:
    """Return all lines by time. Lines of the same time: causes before effects."""
    winners = {one.offer.round: one for one in offers if one.offer.response == "ACCEPTED"}
    lines = [line for search in searches for line in _of_search(search)]
    lines += [_offered(one) for one in offers]
    lines += [line for one in offers for line in _answered(one)]
    lines += [line for step in timeline.steps for line in _of_step(step, winners.get(step.round))]
    return sorted(lines, key=lambda line: line.at)


def _of_search(search: SearchRecord) -> Iterator[Line]:
    if search.cause == "driver_near":
        yield Line(at=search.at, what="woken", round=search.round, search=search.search)
    yield Line(
        at=search.at,
        what="searched",
        round=search.round,
        search=search.search,
        radius_meters=search.radius_meters,
        source=search.source,
        cause=search.cause,
        outcome=search.outcome,
        seen=sum(search.verdicts.values()),
        verdicts=search.verdicts,
    )
    if search.next_at is not None and search.next_at > search.at:
        yield Line(
            at=search.at,
            what="waits",
            round=search.round,
            search=search.search,
            outcome=search.outcome,
            until=search.next_at,
        )


def _offered(one: TracedOffer) -> Line:
    offer = one.offer
    return Line(
        at=offer.offered_at,
        what="offered",
        round=offer.round,
        search=one.search,
        until=offer.expires_at,
        driver_id=offer.driver_id,
        offer_id=offer.id,
        attempt=offer.attempt,
        distance_meters=one.distance_meters,
        by=one.by,
    )


def _answered(one: TracedOffer) -> Iterator[Line]:
    offer = one.offer
    kind: LineKind
    match offer.response:
        case None | "ACCEPTED":  # open; or shown as a status change
            return
        case "REJECTED":
            kind = "refused"
        case "EXPIRED":
            kind = "silent" if offer.reason is None else "withdrawn"
        case "CANCELED":
            kind = "withdrawn"
    assert offer.responded_at is not None, "an answered offer has its time"
    yield Line(
        at=offer.responded_at,
        what=kind,
        round=offer.round,
        driver_id=offer.driver_id,
        offer_id=offer.id,
        attempt=offer.attempt,
        reason=offer.reason,
    )


def _of_step(step: Step, winner: TracedOffer | None) -> Iterator[Line]:
    if step.news == "ride.reassigning":
        yield Line(
            at=step.at,
            what="given_up",
            round=step.round,
            driver_id=step.actor_id,
            by=step.actor,
            reason=step.reason,
        )
    elif step.to_status == "ACCEPTED" and winner is not None:
        yield Line(
            at=step.at,
            what="accepted",
            round=step.round,
            search=winner.search,
            driver_id=winner.offer.driver_id,
            offer_id=winner.offer.id,
            attempt=winner.offer.attempt,
            distance_meters=winner.distance_meters,
            by=step.actor,
        )
    elif kind := LINE_OF_STATUS.get(step.to_status):
        yield Line(at=step.at, what=kind, round=step.round, by=step.actor, reason=step.reason)
