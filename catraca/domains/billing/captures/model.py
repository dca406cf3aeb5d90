"""Money that was received, and which part of it pays the charge."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.domains.billing.charges.model import Charge, ChargeId
from catraca.domains.billing.ledger.model import Part, TransferKind, commission_of
from catraca.domains.people import UserId

CaptureId = NewType("CaptureId", UUID)
# `pix_static`: by Pix, confirmed by a person who has seen it on the bank's statement.
Provider = Literal["cash", "pix_static"]

POSTED_AS: Final[Mapping[Provider, TransferKind]] = {"cash": "cash_captured", "pix_static": "bank_captured"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Received money. `reference` is the provider's own id of the payment."""

    provider: Provider
    reference: str
    amount_cents: int
    confirmed_by: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A booked receipt. `excess_cents` were received beyond the charge."""

    id: CaptureId
    charge_id: ChargeId
    provider: Provider
    provider_ref: str
    amount_cents: int
    excess_cents: int
    captured_at: datetime
    confirmed_by: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What happens with a received sum: a part pays the charge, and the rest is excess."""

    pays_cents: int
    excess_cents: int
    driver_cents: int
    commission_cents: int

    @property
    def parts(self) -> dict[Part, int]:
        return {
            "amount": self.pays_cents,
            "excess": self.excess_cents,
            "driver_share": self.driver_cents,
            "commission": self.commission_cents,
        }


def split(charge: Charge, received_cents: int) -> Split:
    """Split a received sum. However a fare is paid in parts, their commissions add up to that of the fare."""
    pays = min(received_cents, charge.due_cents)
    before, after = (
        commission_of(cents, basis_points=charge.commission_basis_points)
        for cents in (charge.paid_cents, charge.paid_cents + pays)
    )
    return Split(
        pays_cents=pays,
        excess_cents=received_cents - pays,
        driver_cents=pays - (after - before),
        commission_cents=after - before,
    )
