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
