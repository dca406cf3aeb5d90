"""What can be done with rides, a file for each kind of use."""

from catraca.domains.rides.service.accepting import Accepting
from catraca.domains.rides.service.driving import arrive, cancel_ride, complete, start
from catraca.domains.rides.service.offering import make_offers, reject_ride, withdraw_offers
from catraca.domains.rides.service.personal import PERSONAL_DATA
from catraca.domains.rides.service.reading import (
    RideView,
    active_ride,
    list_rides,
    read_attempts,
    read_timeline,
    view_of,
    view_ride,
)
from catraca.domains.rides.service.requesting import request_ride

__all__ = [
    "PERSONAL_DATA",
    "Accepting",
    "RideView",
    "active_ride",
    "arrive",
    "cancel_ride",
    "complete",
    "list_rides",
    "make_offers",
    "read_attempts",
    "read_timeline",
    "reject_ride",
    "request_ride",
    "start",
    "view_of",
    "view_ride",
    "withdraw_offers",
]
