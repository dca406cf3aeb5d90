"""Geofences: rides in a community, and the confirmation of drivers from outside its fence."""

from catraca.domains.geofences.confirmations.service import PERSONAL_DATA
from catraca.domains.geofences.confirmations.store import INVARIANTS
from catraca.domains.geofences.model import ConfirmationTokens
from catraca.domains.geofences.service import CommunityRides, GeofenceTerms

__all__ = ["INVARIANTS", "PERSONAL_DATA", "CommunityRides", "ConfirmationTokens", "GeofenceTerms"]
