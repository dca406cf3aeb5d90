"""Reasons to cancel a ride, and where a cancellation leads."""

from collections.abc import Mapping
from typing import Final, Literal

from catraca.domains.rides.errors import CancelReasonInvalid, RideMoveNotAllowed
from catraca.domains.rides.model import Actor, Ride, TripLimits
from catraca.domains.rides.tracks.model import Track
from catraca.platform.geo import DETOUR_PERCENT

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


# Positions at intervals cut corners, and phones are off by some metres.
TRACK_PERCENT: Final = 150
# The first and last seconds of a trip, in which there may be no ping. The schema has the same number.
SLACK_METERS: Final = 500


def farthest_meters(elapsed_seconds: int, track: Track, limits: TripLimits) -> int:
    """Return the longest plausible distance of a trip: at the top speed, and by the pings."""
    by_time = elapsed_seconds * limits.top_speed_kmh / 3.6
    uncovered = max(0.0, elapsed_seconds - track.covered_seconds) * limits.top_speed_kmh / 3.6
    by_pings = track.meters * TRACK_PERCENT / 100 + uncovered
    return SLACK_METERS + int(min(by_time, by_pings))


def shortest_seconds(distance_meters: int, limits: TripLimits) -> int:
    """Return the time that the straight line of an estimated distance takes at the top speed."""
    straight = max(0, distance_meters * 100 / DETOUR_PERCENT - SLACK_METERS)
    return int(straight * 3.6 / limits.top_speed_kmh)


def status_after_cancel(ride: Ride, *, by: Actor, reason: CancelReason) -> Literal["SEARCHING", "CANCELED"]:
    """Return the status after this cancellation; raise a refusal if it is not allowed.

    A driver's cancellation starts a new search, except after a no-show: the next driver would wait in vain.
    """
    if reason not in CANCEL_REASONS[by]:
        raise CancelReasonInvalid(reasons=list(CANCEL_REASONS[by]))
    if ride.status == "STARTED":  # only an operator ends it, by `interventions`
        raise RideMoveNotAllowed(ride_status=ride.status)
    if reason == "passenger_no_show" and ride.status != "ARRIVING":
        raise RideMoveNotAllowed(ride_status=ride.status)
    to: Literal["SEARCHING", "CANCELED"] = "CANCELED"
    if by == "driver" and reason != "passenger_no_show":
        to = "SEARCHING"
    ride.check_move(to)
    return to
