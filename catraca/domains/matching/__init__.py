"""Matching: finds a driver for a requested ride, or ends the ride when its time is over."""

from catraca.domains.matching.candidates.model import Verdict
from catraca.domains.matching.candidates.store import INVARIANTS as CANDIDATE_INVARIANTS
from catraca.domains.matching.explain.service import Explanation, explain_ride
from catraca.domains.matching.search.model import Rules
from catraca.domains.matching.search.service import Matcher, Terms
from catraca.domains.matching.search.store import INVARIANTS as SEARCH_INVARIANTS
from catraca.domains.matching.search.store import count_open_searches

INVARIANTS = (*SEARCH_INVARIANTS, *CANDIDATE_INVARIANTS)

__all__ = [
    "INVARIANTS",
    "Explanation",
    "Matcher",
    "Rules",
    "Terms",
    "Verdict",
    "count_open_searches",
    "explain_ride",
]
