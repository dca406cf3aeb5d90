"""The search for a driver as a value, and the one function that decides what comes next.

`step` knows nothing of databases, clocks or queues: it gets what has happened together with how the ride
stands, and answers the new state and what is to be done. It goes by how things stand, not by what it was told
last: an event that comes twice, late, out of order or from an earlier round finds nothing left to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

# Nobody could be asked who is near, or all were snatched away: soon again, for the answer may be another.
SOON: Final = timedelta(seconds=2)

Phase = Literal["searching", "matched", "ended"]
Again = Literal["nobody_near", "all_asked", "snatched", "index_away"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How drivers are looked for, and for how long."""

    # How many offers of one ride may be live. None at all: operators offer by hand.
    offers_at_once: int = 1
    max_attempts_per_search: int = 10
    search_retry_interval: timedelta = timedelta(seconds=30)
    initial_radius_meters: int = 5000
    max_radius_meters: int = 15000
    radius_increment_meters: int = 2500

    def radius_of(self, search: int) -> int:
        """Each search looks further than the one before it."""
        grown = self.initial_radius_meters + (search - 1) * self.radius_increment_meters
        return min(grown, self.max_radius_meters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """What matching remembers of a ride between two steps: a row."""

    ride_id: UUID
    round: int
    # Since when a driver is looked for in this round.
    started_at: datetime
    phase: Phase = "searching"
    # The search under way or to come, counted in each round; and how many offers it has made.
    search: int = 1
    offers: int = 0
    # Set while nobody more can be asked: when to look again.
    next_search_at: datetime | None = None
    # When to take the next step if nothing happens before; None: never.
    wake_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the ride stands, read while it is held: true until the step is done."""

    state: Literal["open", "taken", "over"]
    round: int
    # When the round began, and when it must end.
    since: datetime
    deadline_at: datetime
    # Offers that wait for an answer, and when the first of them runs out.
    live: int = 0
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    driver_id: UUID
    distance_meters: float
    seen_at: datetime


Score = Callable[[Candidate], float]


def by_distance(candidate: Candidate) -> float:
    """The nearest first."""
    return candidate.distance_meters


@dataclass(frozen=True, slots=True)
class Nudged:
    """Something has happened, or time has passed: look how things stand."""

    ride: Standing


@dataclass(frozen=True, slots=True)
class DriverNear:
    """Somebody near by may be free now."""

    ride: Standing


@dataclass(frozen=True, slots=True)
class Found:
    """Who could be asked, the best first. Not certain, where the answer may be wrong for lack of the map."""

    ride: Standing
    candidates: Sequence[Candidate]
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Offered:
    """How many of those were offered the ride, and how it stands since."""

    ride: Standing
    made: int


Event = Nudged | DriverNear | Found | Offered


@dataclass(frozen=True, slots=True)
class Look:
    """Find out who is within the radius and could be asked; answered by `Found`."""

    radius_meters: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Offer the ride to the first so many of these whom nobody else has; answered by `Offered`."""

    candidates: Sequence[Candidate]
    wanted: int


@dataclass(frozen=True, slots=True)
class TellRetry:
    """Tell that there will be another search."""

    search: int
    radius_meters: int
    at: datetime
    reason: Again


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the ride: nobody came."""


Effect = Look | Offer | TellRetry | GiveUp
Decision = tuple[Matching, tuple[Effect, ...]]


def step(matching: Matching, event: Event, now: datetime, rules: Rules) -> Decision:
    """What comes next. Every event has an outcome in every state."""
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
        return _close(matching, "ended"), (GiveUp(),)
    matching, effects = _go_on(matching, event, now, rules)
    return _set_alarm(matching, ride), effects


def _go_on(matching: Matching, event: Event, now: datetime, rules: Rules) -> Decision:
    match event:
        case Nudged():
            if _waits(matching, event.ride, now):
                return matching, ()
            return _look_around(replace(matching, next_search_at=None), event.ride, now, rules)
        case DriverNear():
            return _look_around(matching, event.ride, now, rules)
        case Found():
            return _found(matching, event, now, rules)
        case Offered():
            return _offered(matching, event, now, rules)


def _waits(matching: Matching, ride: Standing, now: datetime) -> bool:
    """Whether the next search is yet to come. It need not wait long once all who were asked have answered."""
    if matching.next_search_at is None or now >= matching.next_search_at:
        return False
    return not _all_answered(matching, ride) or matching.next_search_at <= now + SOON


def _all_answered(matching: Matching, ride: Standing) -> bool:
    return matching.offers > 0 and ride.live == 0


def _wanted(matching: Matching, ride: Standing, rules: Rules) -> int:
    """How many more may be asked now."""
    return min(rules.offers_at_once - ride.live, rules.max_attempts_per_search - matching.offers)


def _look_around(matching: Matching, ride: Standing, now: datetime, rules: Rules) -> Decision:
    if _wanted(matching, ride, rules) > 0:
        return matching, (_look(matching, rules),)
    if ride.live > 0 or rules.offers_at_once <= 0:  # up to who thinks about it, or offers by hand
        return replace(matching, next_search_at=None), ()
    return _look_further(matching, ride, now, rules)


def _found(matching: Matching, found: Found, now: datetime, rules: Rules) -> Decision:
    wanted = _wanted(matching, found.ride, rules)
    if wanted <= 0:
        return replace(matching, next_search_at=None), ()
    if found.candidates:
        return matching, (Offer(found.candidates, wanted),)
    if matching.next_search_at is not None and now < matching.next_search_at:
        return matching, ()  # woken in vain: the next search comes when it was to come
    if not found.certain:
        return _wait_a_little(matching, found.ride, now, rules, reason="index_away")
    if matching.offers == 0:
        later = now + rules.search_retry_interval
        return _search_again(matching, found.ride, later, rules, reason="nobody_near")
    if found.ride.live > 0:  # further out only once everybody here has answered
        return replace(matching, next_search_at=now + rules.search_retry_interval), ()
    return _look_further(matching, found.ride, now, rules)


def _offered(matching: Matching, offered: Offered, now: datetime, rules: Rules) -> Decision:
    if offered.made <= 0:
        return _wait_a_little(matching, offered.ride, now, rules, reason="snatched")
    matching = replace(matching, offers=matching.offers + offered.made, next_search_at=None)
    if _wanted(matching, offered.ride, rules) > 0:  # there was nobody more to ask; somebody may come
        matching = replace(matching, next_search_at=now + rules.search_retry_interval)
    return matching, ()


def _look_further(matching: Matching, ride: Standing, now: datetime, rules: Rules) -> Decision:
    """Everybody near was asked and has answered: look further out, at once."""
    matching, told = _search_again(matching, ride, now, rules, reason="all_asked")
    return replace(matching, next_search_at=None), (*told, _look(matching, rules))


def _search_again(
    matching: Matching, ride: Standing, at: datetime, rules: Rules, *, reason: Again
) -> Decision:
    matching = replace(matching, search=matching.search + 1, offers=0, next_search_at=at)
    return matching, _tell(matching, ride, at, rules, reason=reason)


def _wait_a_little(
    matching: Matching, ride: Standing, now: datetime, rules: Rules, *, reason: Again
) -> Decision:
    """The same search once more: soon, and less soon the longer the round lasts already.

    Unless all who were asked have answered: that is not waited for any longer, whenever it is heard of.
    """
    pause = SOON if _all_answered(matching, ride) else max(SOON, (now - matching.started_at) / 4)
    at = now + min(pause, rules.search_retry_interval)
    return replace(matching, next_search_at=at), _tell(matching, ride, at, rules, reason=reason)


def _tell(
    matching: Matching, ride: Standing, at: datetime, rules: Rules, *, reason: Again
) -> tuple[TellRetry, ...]:
    """Of a search that will come; after the deadline none does."""
    if at >= ride.deadline_at:
        return ()
    return (TellRetry(matching.search, rules.radius_of(matching.search), at, reason),)


def _look(matching: Matching, rules: Rules) -> Look:
    return Look(rules.radius_of(matching.search))


def _set_alarm(matching: Matching, ride: Standing) -> Matching:
    """For the next search or the end. An offer's end is told of; the alarm is there should that be lost."""
    moments = [ride.deadline_at, matching.next_search_at, ride.expires_at and ride.expires_at + SOON]
    return replace(matching, wake_at=min(moment for moment in moments if moment is not None))


def _close(matching: Matching, phase: Phase) -> Matching:
    return replace(matching, phase=phase, next_search_at=None, wake_at=None)
