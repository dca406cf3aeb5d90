"""Refusals of Pix codes."""

from catraca.platform.errors import Refusal


class PixNotOffered(Refusal):
    """No Pix key is set."""

    code = "pix_not_offered"
    status = 404


class NothingDue(Refusal):
    code = "nothing_due"
    status = 409
