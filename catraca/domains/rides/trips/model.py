"""Reasons to cancel a ride, and where a cancellation leads."""

from collections.abc import Mapping
from typing import Final, Literal

from catraca.domains.rides.errors import CancelReasonInvalid, RideMoveNotAllowed
from catraca.domains.rides.model import Actor, Ride

CancelReason = Literal[
    "changed_plans",
    "waited_too_long",
    "wrong_place",
    "driver_asked",
    "vehicle_problem",
    "too_far",
    "unsafe",
    "passenger_no_show",
    "operator_decision",
    "other",
]
CANCEL_REASONS: Final[Mapping[Actor, tuple[CancelReason, ...]]] = {
    "passenger": ("changed_plans", "waited_too_long", "wrong_place", "driver_asked", "unsafe", "other"),
    "driver": ("vehicle_problem", "too_far", "unsafe", "passenger_no_show", "other"),
    "operator": ("operator_decision", "unsafe", "other"),
    "system": (),
}


def status_after_cancel(ride: Ride, *, by: Actor, reason: CancelReason) -> Literal["SEARCHING", "CANCELED"]:
    """Return the status after this cancellation; raise a refusal if it is not allowed.

    A driver's cancellation starts a new search, except after a no-show: the next driver would wait in vain.
    """
    if reason not in CANCEL_REASONS[by]:
        raise CancelReasonInvalid(reasons=list(CANCEL_REASONS[by]))
    if reason == "passenger_no_show" and ride.status != "ARRIVING":
        raise RideMoveNotAllowed(ride_status=ride.status)
    to: Literal["SEARCHING", "CANCELED"] = "CANCELED"
    if by == "driver" and reason != "passenger_no_show":
        to = "SEARCHING"
    ride.check_move(to)
    return to
