"""What can be done with rides, a file for each kind of use."""

from catraca.domains.rides.service.accepting import Accepting
from catraca.domains.rides.service.driving import arrive, cancel_ride, complete, start
from catraca.domains.rides.service.due import EndedSearch, end_search, read_ended_search
from catraca.domains.rides.service.holding import HeldRide, begin_search, hold_ride, may_hold
from catraca.domains.rides.service.offering import make_offers, offer_held, reject_ride, withdraw_offers
from catraca.domains.rides.service.personal import PERSONAL_DATA
from catraca.domains.rides.service.reading import (
    RideView,
    Timeline,
    active_ride,
    check_party,
    list_rides,
    read_attempts,
    read_timeline,
    view_of,
    view_ride,
)
from catraca.domains.rides.service.receiving import acknowledge_offers
from catraca.domains.rides.service.requesting import quote_fare, refuse_second_ride, request_ride

__all__ = [
    "PERSONAL_DATA",
    "Accepting",
    "EndedSearch",
    "HeldRide",
    "RideView",
    "Timeline",
    "acknowledge_offers",
    "active_ride",
    "arrive",
    "begin_search",
    "cancel_ride",
    "check_party",
    "complete",
    "end_search",
    "hold_ride",
    "list_rides",
    "make_offers",
    "may_hold",
    "offer_held",
    "quote_fare",
    "read_attempts",
    "read_ended_search",
    "read_timeline",
    "refuse_second_ride",
    "reject_ride",
    "request_ride",
    "start",
    "view_of",
    "view_ride",
    "withdraw_offers",
]
