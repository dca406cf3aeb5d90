"""What location's verbs refuse."""

from catraca.platform.errors import Refusal


class DriverMayNotDrive(Refusal):
    """Not approved, suspended or erased: whoever may not take rides is not looked for either."""

    code = "driver_may_not_drive"
    status = 403


class DriverNotOnline(Refusal):
    """A ping of somebody who is not at work; the app asks to go online, and sends it again."""

    code = "driver_offline"
    status = 409


class LocksUnavailable(Refusal):
    """Redis cannot be asked: whether somebody holds the driver is not known, so it is not said."""

    code = "locks_unavailable"
    status = 503
    retry_after_seconds = 1


class RideNotUnderWay(Refusal):
    """Where somebody is who drives nobody is not shown; `ride_status` is where the ride stands."""

    code = "ride_not_under_way"
    status = 409


class RideEnded(Refusal):
    """There is nothing left to follow."""

    code = "ride_ended"
    status = 409


class TooManyShares(Refusal):
    """`most` is how many links a ride may have at a time."""

    code = "too_many_shares"
    status = 409


class TripNotFound(Refusal):
    """The link never was one, has expired or was revoked: it is not said which."""

    code = "trip_not_found"
    status = 404
