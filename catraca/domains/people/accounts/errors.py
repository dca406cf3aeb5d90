"""Refusals about accounts."""

from catraca.platform.errors import Refusal


class DriverRoleStays(Refusal):
    """Rides refer to their drivers for ever: a driver can be suspended, but keeps the role."""

    code = "driver_role_stays"
    status = 409
