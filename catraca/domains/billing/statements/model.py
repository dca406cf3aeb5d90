"""The statement of a driver's account, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.billing.ledger.model import TransferKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A posting. Above zero: the co-operative owes the driver that much more."""

    n: int
    at: datetime
    kind: TransferKind
    ride_id: UUID
    cents: int
    balance_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`entries`: newest first. A balance above zero is owed to the driver, below zero by the driver."""

    currency: str
    balance_cents: int
    entries: Sequence[Entry]
