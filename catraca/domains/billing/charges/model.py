"""Charges, and the states a charge can be in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.domains.billing.ledger.model import commission_of
from catraca.domains.people import UserId
from catraca.domains.rides import RideId

ChargeId = NewType("ChargeId", UUID)
Status = Literal["PENDING", "PAID", "EXPIRED"]
Actor = Literal["driver", "operator", "system"]

# The schema has the same table in the constraint `only_allowed_charge_moves`.
MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    "PENDING": frozenset({"PAID", "EXPIRED"}),
    "EXPIRED": frozenset({"PAID"}),
    "PAID": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingRules:
    """The terms of new charges, from the settings."""

    currency: str
    commission_basis_points: int
    # None: the time to pay has no end.
    payment_timeout: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCharge:
    ride_id: RideId
    payer_id: UserId
    payee_id: UserId
    amount_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a passenger owes for a ride. `payee_id` is the driver."""

    id: ChargeId
    ride_id: RideId
    payer_id: UserId
    payee_id: UserId
    amount_cents: int
    # What was received of it.
    paid_cents: int
    currency: str
    commission_basis_points: int
    status: Status
    version: int
    opened_at: datetime
    expires_at: datetime | None
    updated_at: datetime

    @property
    def due_cents(self) -> int:
        return self.amount_cents - self.paid_cents

    @property
    def commission_cents(self) -> int:
        return commission_of(self.amount_cents, basis_points=self.commission_basis_points)

    def is_party(self, user_id: UUID) -> bool:
        return user_id in (self.payer_id, self.payee_id)

    def may_become(self, status: Status) -> bool:
        return status in MOVES[self.status]
