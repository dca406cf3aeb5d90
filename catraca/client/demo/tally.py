"""Counts of what happened in the city."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from catraca.client.errors import ClientFailure, Refused

# The latest ones: a city may run for days.
TIMES_KEPT = 100_000


@dataclass(slots=True)
class Tally:
    requested: int = 0
    matched: int = 0
    completed: int = 0
    # Fares that drivers received in cash.
    paid: int = 0
    canceled: int = 0
    # Searches that ended without a driver.
    unserved: int = 0
    offers: Counter[str] = field(default_factory=Counter[str])
    shared: int = 0
    # Rides requested in a community, and the questions about drivers from elsewhere.
    in_communities: int = 0
    questions: Counter[str] = field(default_factory=Counter[str])
    # Appointments booked, lost to a rival, and canceled.
    appointments: Counter[str] = field(default_factory=Counter[str])
    lost_connections: int = 0
    # Seconds from the request to the acceptance.
    match_seconds: list[float] = field(default_factory=list[float])
    # Expected when several want the same; by code.
    refusals: Counter[str] = field(default_factory=Counter[str])
    # No response in time and the like; by type.
    failures: Counter[str] = field(default_factory=Counter[str])
    messages: Counter[str] = field(default_factory=Counter[str])
    drivers: Counter[str] = field(default_factory=Counter[str])
    # Rides still open at the end.
    left_open: int = 0

    def note_match(self, seconds: float) -> None:
        self.matched += 1
        self.match_seconds.append(seconds)
        if len(self.match_seconds) > TIMES_KEPT:
            del self.match_seconds[: TIMES_KEPT // 2]

    def note_failure(self, failure: ClientFailure) -> None:
        """Count a refusal by its code, any other failure by its type."""
        if isinstance(failure, Refused):
            self.refusals[failure.code] += 1
        else:
            self.failures[type(failure).__name__] += 1

    def summary(self) -> dict[str, Any]:
        """All counts, for programs."""
        return {
            "requested": self.requested,
            "matched": self.matched,
            "completed": self.completed,
            "paid": self.paid,
            "canceled": self.canceled,
            "unserved": self.unserved,
            "left_open": self.left_open,
            "match_seconds": {
                "median": percentile(self.match_seconds, 50),
                "p95": percentile(self.match_seconds, 95),
            },
            "offers": dict(self.offers),
            "shared": self.shared,
            "in_communities": self.in_communities,
            "questions": dict(self.questions),
            "appointments": dict(self.appointments),
            "lost_connections": self.lost_connections,
            "refusals": dict(self.refusals),
            "failures": dict(self.failures),
            "messages": dict(self.messages),
        }


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The percentile by nearest rank; None without values."""
    if not values:
        return None
    rank = -(-len(values) * percent // 100)
    return round(sorted(values)[max(0, rank - 1)], 3)
