"""Matching: from a ride that is asked for to the driver who takes it, or to an honest end."""

from catraca.domains.matching.model import Rules
from catraca.domains.matching.service.advancing import Matcher, Terms
from catraca.domains.matching.service.explaining import Explanation, explain_ride
from catraca.domains.matching.store.invariants import INVARIANTS
from catraca.domains.matching.store.matchings import count_open
from catraca.domains.matching.store.searches import Verdict, prune_searches

__all__ = [
    "INVARIANTS",
    "Explanation",
    "Matcher",
    "Rules",
    "Terms",
    "Verdict",
    "count_open",
    "explain_ride",
    "prune_searches",
]
