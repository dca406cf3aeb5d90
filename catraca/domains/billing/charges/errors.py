"""Refusals of charges."""

from catraca.platform.errors import Refusal


class ChargeNotFound(Refusal):
    """Also for callers who are no party of the ride."""

    code = "charge_not_found"
    status = 404
