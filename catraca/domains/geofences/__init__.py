"""Geofences: rides in a community, and a way out of its fence that is safe to confirm twice."""

from catraca.domains.geofences.model import TokenMaker
from catraca.domains.geofences.service.gate import Gate, Terms
from catraca.domains.geofences.service.outcomes import PERSONAL_DATA
from catraca.domains.geofences.store import INVARIANTS

__all__ = ["INVARIANTS", "PERSONAL_DATA", "Gate", "Terms", "TokenMaker"]
