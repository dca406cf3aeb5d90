"""Candidates for a ride, and the record of one search: the drivers it saw and why each was not asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from catraca.domains.location import Source

# The driver got an offer, or the reason for no offer: from location, from earlier offers of this ride, or
# because another ride was faster.
Verdict = Literal[
    "offered",
    "next",
    "asked_now",
    "driving",
    "held",
    "may_not_drive",
    "stale",
    "outside_fence",
    "refused_before",
    "silent_before",
    "gave_it_up",
    "own_ride",
    "too_far",
    "locked",
    "snatched",
]
# Why the search ran: the round began, an offer ended, the wait was over, a driver came near, or the search
# before it had no driver left to ask.
Cause = Literal["begun", "offer_ended", "due", "driver_near", "all_asked"]
# `waits_on`: woken early, found no candidate, and keeps its planned time.
Outcome = Literal["asked", "nobody_near", "all_asked", "snatched", "index_away", "waits_on"]


@dataclass(frozen=True, slots=True)
class Candidate:
    driver_id: UUID
    distance_meters: float


class SeenDriver(msgspec.Struct, frozen=True, omit_defaults=True):
    driver_id: UUID
    distance_meters: int
    verdict: Verdict
    offer_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    round: int
    search: int
    at: datetime
    radius_meters: int
    source: Source
    cause: Cause
    outcome: Outcome
    # When the next search is planned.
    next_at: datetime | None
    # Counts of all drivers seen; `seen` has the nearest of them.
    verdicts: Mapping[Verdict, int]
    seen: Sequence[SeenDriver]
