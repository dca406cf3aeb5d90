"""Refusals of captures."""

from uuid import UUID

from catraca.platform.errors import Refusal


class ReferenceCaptured(Refusal):
    """The reference was booked before: for another charge, or with another amount."""

    code = "reference_captured"
    status = 409

    def __init__(self, *, charge_id: UUID, amount_cents: int) -> None:
        super().__init__(charge_id=charge_id, amount_cents=amount_cents)
