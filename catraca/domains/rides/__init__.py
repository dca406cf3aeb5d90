"""Rides: requested, offered, accepted by exactly one driver, driven to their end."""

from catraca.domains.rides.model import Actor, CancellationRule, Offer, Response, Ride, RideId, Status
from catraca.domains.rides.offers.model import OfferPlan
from catraca.domains.rides.offers.service import (
    acknowledge_offers,
    busy_drivers,
    may_reserve,
    offer_rides,
    open_offers,
    withdraw_offers,
)
from catraca.domains.rides.offers.store import MAKES_BUSY
from catraca.domains.rides.payments.service import expire_payment, pay_ride
from catraca.domains.rides.requests.model import RideRequest
from catraca.domains.rides.requests.service import quote_fare, refuse_request, request_ride
from catraca.domains.rides.search.model import LockedRide, RidesCollide
from catraca.domains.rides.search.service import (
    begin_search,
    end_search,
    lock_all_for_search,
    lock_for_search,
)
from catraca.domains.rides.tracks.model import TrackPoint
from catraca.domains.rides.tracks.service import extend_tracks
from catraca.domains.rides.views.service import (
    Timeline,
    driven_rides,
    read_own_ride,
    read_rides,
    read_timeline,
)
from catraca.domains.rides.views.store import Step

__all__ = [
    "MAKES_BUSY",
    "Actor",
    "CancellationRule",
    "LockedRide",
    "Offer",
    "OfferPlan",
    "Response",
    "Ride",
    "RideId",
    "RideRequest",
    "RidesCollide",
    "Status",
    "Step",
    "Timeline",
    "TrackPoint",
    "acknowledge_offers",
    "begin_search",
    "busy_drivers",
    "driven_rides",
    "end_search",
    "expire_payment",
    "extend_tracks",
    "lock_all_for_search",
    "lock_for_search",
    "may_reserve",
    "offer_rides",
    "open_offers",
    "pay_ride",
    "quote_fare",
    "read_own_ride",
    "read_rides",
    "read_timeline",
    "refuse_request",
    "request_ride",
    "withdraw_offers",
]
