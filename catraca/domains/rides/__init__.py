"""Rides: asked for, offered, accepted by exactly one driver, driven to their end."""

from catraca.domains.rides.model import MadeOffers, Offer, Ride, RideId, Skipped, Status
from catraca.domains.rides.service import PERSONAL_DATA, Accepting, make_offers, request_ride, withdraw_offers
from catraca.domains.rides.store.invariants import INVARIANTS
from catraca.domains.rides.store.offers import Hold, busy_drivers, count_live_offers

__all__ = [
    "INVARIANTS",
    "PERSONAL_DATA",
    "Accepting",
    "Hold",
    "MadeOffers",
    "Offer",
    "Ride",
    "RideId",
    "Skipped",
    "Status",
    "busy_drivers",
    "count_live_offers",
    "make_offers",
    "request_ride",
    "withdraw_offers",
]
