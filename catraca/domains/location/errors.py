"""Refusals of the location domain."""

from catraca.platform.errors import Refusal


class DriverMayNotDrive(Refusal):
    """The driver is not approved, suspended or erased."""

    code = "driver_may_not_drive"
    status = 403


class DriverNotOnline(Refusal):
    """A ping from an offline driver. The app goes online and sends the ping again."""

    code = "driver_offline"
    status = 409


class LocksUnavailable(Refusal):
    """Redis is down, so it is unknown whether the driver is locked."""

    code = "locks_unavailable"
    status = 503
    retry_after_seconds = 1


class RideNotUnderWay(Refusal):
    """Positions are shown from acceptance to the end of the ride; `ride_status` is the present status."""

    code = "ride_not_under_way"
    status = 409


class RideEnded(Refusal):
    code = "ride_ended"
    status = 409


class TooManyShares(Refusal):
    """`most` is the limit of working links for one ride."""

    code = "too_many_shares"
    status = 409


class TripNotFound(Refusal):
    """The link is unknown, expired or revoked; the answer is the same for all three."""

    code = "trip_not_found"
    status = 404
