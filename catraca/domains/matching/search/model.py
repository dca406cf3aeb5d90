"""The search for a driver as a value, and `step`, the one pure function that decides what comes next.

`step` decides by the present state of the ride, not by the event it got. An event that is repeated, late, out
of order or of an earlier round therefore has no effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from catraca.domains.matching.candidates.model import Candidate

# Wait before the same search is repeated: no candidate could be locked, or Redis was away.
SHORT_WAIT: Final = timedelta(seconds=2)

Phase = Literal["searching", "matched", "ended"]
RetryReason = Literal["nobody_near", "all_asked", "snatched", "index_away"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    # Live offers of one ride at a time; 0: operators make the offers.
    offers_at_once: int = 1
    max_attempts_per_search: int = 10
    search_retry_interval: timedelta = timedelta(seconds=30)
    initial_radius_meters: int = 5000
    max_radius_meters: int = 15000
    radius_increment_meters: int = 2500

    def radius_of(self, search: int) -> int:
        """Return the radius of a search, counted from 1; each is wider than the one before."""
        grown = self.initial_radius_meters + (search - 1) * self.radius_increment_meters
        return min(grown, self.max_radius_meters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The state of a ride's search between two steps: one row."""

    ride_id: UUID
    round: int
    # Start of the search in this round.
    started_at: datetime
    phase: Phase = "searching"
    # Number of the present or next search in this round, and how many offers it made.
    search: int = 1
    offers: int = 0
    # Set while there is no driver left to ask.
    next_search_at: datetime | None = None
    # When the next step is due at the latest; None: never.
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RideState:
    """The ride as read under its lock."""

    state: Literal["open", "taken", "over"]
    round: int
    # Start and deadline of the round.
    since: datetime
    deadline_at: datetime
    # Offers without an answer, and the first expiry among them.
    live: int = 0
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Recheck:
    """An event arrived or a timer fired."""

    ride: RideState


@dataclass(frozen=True, slots=True)
class DriverNearby:
    """A driver near the pickup became available."""

    ride: RideState


@dataclass(frozen=True, slots=True)
class CandidatesFound:
    """The result of `FindCandidates`, the best first. `certain` is False if Redis was away."""

    ride: RideState
    candidates: Sequence[Candidate]
    certain: bool = True


@dataclass(frozen=True, slots=True)
class OffersMade:
    """The result of `MakeOffers`, with the ride after it."""

    ride: RideState
    made: int


Event = Recheck | DriverNearby | CandidatesFound | OffersMade


@dataclass(frozen=True, slots=True)
class FindCandidates:
    """Answered by `CandidatesFound`."""

    radius_meters: int


@dataclass(frozen=True, slots=True)
class MakeOffers:
    """Offer the ride to the first `wanted` candidates that can be locked; answered by `OffersMade`."""

    candidates: Sequence[Candidate]
    wanted: int


@dataclass(frozen=True, slots=True)
class PublishRetry:
    """Publish that there will be another search."""

    search: int
    radius_meters: int
    at: datetime
    reason: RetryReason


@dataclass(frozen=True, slots=True)
class EndRide:
    """End the ride: no driver was found in time."""


Effect = FindCandidates | MakeOffers | PublishRetry | EndRide
Decision = tuple[Matching, tuple[Effect, ...]]


def step(matching: Matching, event: Event, now: datetime, rules: Rules) -> Decision:
    """Return the new state and the effects to perform. Defined for every event in every state."""
    ride = event.ride
    if ride.round < matching.round:
        return matching, ()  # that round is over
    if ride.round > matching.round:
        matching = Matching(ride_id=matching.ride_id, round=ride.round, started_at=ride.since)
    if ride.state != "open":
        return _close(matching, "matched" if ride.state == "taken" else "ended"), ()
    if matching.phase != "searching":
        return _close(matching, matching.phase), ()
    if now >= ride.deadline_at:
        return _close(matching, "ended"), (EndRide(),)
    matching, effects = _decide(matching, event, now, rules)
    return _set_wake_time(matching, ride), effects


def _decide(matching: Matching, event: Event, now: datetime, rules: Rules) -> Decision:
    match event:
        case Recheck():
            if _is_waiting(matching, event.ride, now):
                return matching, ()
            return _continue_search(replace(matching, next_search_at=None), event.ride, now, rules)
        case DriverNearby():
            return _continue_search(matching, event.ride, now, rules)
        case CandidatesFound():
            return _after_search(matching, event, now, rules)
        case OffersMade():
            return _after_offers(matching, event, now, rules)


def _is_waiting(matching: Matching, ride: RideState, now: datetime) -> bool:
    """Return True before the next search. Once all offers are answered, only a short wait is kept."""
    if matching.next_search_at is None or now >= matching.next_search_at:
        return False
    return not _all_answered(matching, ride) or matching.next_search_at <= now + SHORT_WAIT


def _all_answered(matching: Matching, ride: RideState) -> bool:
    return matching.offers > 0 and ride.live == 0


def _wanted(matching: Matching, ride: RideState, rules: Rules) -> int:
    """Return how many more offers may be made now."""
    return min(rules.offers_at_once - ride.live, rules.max_attempts_per_search - matching.offers)


def _continue_search(matching: Matching, ride: RideState, now: datetime, rules: Rules) -> Decision:
    if _wanted(matching, ride, rules) > 0:
        return matching, (_find(matching, rules),)
    if ride.live > 0 or rules.offers_at_once <= 0:  # wait for an answer, or for an operator
        return replace(matching, next_search_at=None), ()
    return _widen(matching, ride, now, rules)


def _after_search(matching: Matching, found: CandidatesFound, now: datetime, rules: Rules) -> Decision:
    wanted = _wanted(matching, found.ride, rules)
    if wanted <= 0:
        return replace(matching, next_search_at=None), ()
    if found.candidates:
        return matching, (MakeOffers(found.candidates, wanted),)
    if matching.next_search_at is not None and now < matching.next_search_at:
        return matching, ()  # woken early without a candidate: the planned time stays
    if not found.certain:
        return _repeat_search(matching, found.ride, now, rules, reason="index_away")
    if matching.offers == 0:
        later = now + rules.search_retry_interval
        return _plan_next_search(matching, found.ride, later, rules, reason="nobody_near")
    if found.ride.live > 0:  # a wider search only after all offers are answered
        return replace(matching, next_search_at=now + rules.search_retry_interval), ()
    return _widen(matching, found.ride, now, rules)


def _after_offers(matching: Matching, offered: OffersMade, now: datetime, rules: Rules) -> Decision:
    if offered.made <= 0:
        return _repeat_search(matching, offered.ride, now, rules, reason="snatched")
    matching = replace(matching, offers=matching.offers + offered.made, next_search_at=None)
    if _wanted(matching, offered.ride, rules) > 0:  # fewer candidates than offers: search again later
        matching = replace(matching, next_search_at=now + rules.search_retry_interval)
    return matching, ()


def _widen(matching: Matching, ride: RideState, now: datetime, rules: Rules) -> Decision:
    """Start the next, wider search at once: all drivers in this radius were asked and have answered."""
    matching, retries = _plan_next_search(matching, ride, now, rules, reason="all_asked")
    return replace(matching, next_search_at=None), (*retries, _find(matching, rules))


def _plan_next_search(
    matching: Matching, ride: RideState, at: datetime, rules: Rules, *, reason: RetryReason
) -> Decision:
    matching = replace(matching, search=matching.search + 1, offers=0, next_search_at=at)
    return matching, _retry_event(matching, ride, at, rules, reason=reason)


def _repeat_search(
    matching: Matching, ride: RideState, now: datetime, rules: Rules, *, reason: RetryReason
) -> Decision:
    """Plan the same search again, after a wait that grows with the age of the round.

    If all offers are answered the wait stays short, so that a repeated event plans nothing new.
    """
    wait = SHORT_WAIT if _all_answered(matching, ride) else max(SHORT_WAIT, (now - matching.started_at) / 4)
    at = now + min(wait, rules.search_retry_interval)
    return replace(matching, next_search_at=at), _retry_event(matching, ride, at, rules, reason=reason)


def _retry_event(
    matching: Matching, ride: RideState, at: datetime, rules: Rules, *, reason: RetryReason
) -> tuple[PublishRetry, ...]:
    """Return nothing for a search after the deadline: it will not run."""
    if at >= ride.deadline_at:
        return ()
    return (PublishRetry(matching.search, rules.radius_of(matching.search), at, reason),)


def _find(matching: Matching, rules: Rules) -> FindCandidates:
    return FindCandidates(rules.radius_of(matching.search))


def _set_wake_time(matching: Matching, ride: RideState) -> Matching:
    """Wake for the next search, the deadline, or just after an offer expires, should its event be lost."""
    moments = [ride.deadline_at, matching.next_search_at, ride.expires_at and ride.expires_at + SHORT_WAIT]
    return replace(matching, wake_at=min(moment for moment in moments if moment is not None))


def _close(matching: Matching, phase: Phase) -> Matching:
    return replace(matching, phase=phase, next_search_at=None, wake_at=None)
