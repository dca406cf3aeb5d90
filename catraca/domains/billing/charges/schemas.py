"""Responses about charges."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import Field

from catraca.domains.billing.charges.model import Charge, Status
from catraca.platform.forms import Answer, Page, examples


class ChargeOut(Answer):
    model_config = examples(
        {
            "charge_id": "0198a8b2-3c00-7000-8000-000000000021",
            "ride_id": "0198a8b2-3c00-7000-8000-000000000001",
            "status": "PENDING",
            "amount_cents": 2550,
            "paid_cents": 0,
            "currency": "BRL",
            "commission_cents": 255,
            "opened_at": "2025-08-14T12:00:00Z",
            "expires_at": "2025-08-15T12:00:00Z",
            "updated_at": "2025-08-14T12:00:00Z",
        }
    )

    charge_id: UUID
    ride_id: UUID
    status: Status = Field(description="`EXPIRED`: not paid in time. It can still be paid.")
    amount_cents: int = Field(description="The fare, in hundredths of the currency.")
    paid_cents: int = Field(description="What was received of it.")
    currency: str = Field(description="ISO 4217.")
    commission_cents: int | None = Field(
        description="The part of the fare that the driver does not keep; null for the passenger."
    )
    opened_at: datetime
    expires_at: datetime | None = Field(description="End of the time to pay; null: it has none.")
    updated_at: datetime

    @classmethod
    def of(cls, charge: Charge, *, caller_id: UUID) -> Self:
        return cls(
            charge_id=charge.id,
            ride_id=charge.ride_id,
            status=charge.status,
            amount_cents=charge.amount_cents,
            paid_cents=charge.paid_cents,
            currency=charge.currency,
            commission_cents=None if caller_id == charge.payer_id else charge.commission_cents,
            opened_at=charge.opened_at,
            expires_at=charge.expires_at,
            updated_at=charge.updated_at,
        )


class ChargePage(Page[ChargeOut, UUID]):
    @classmethod
    def of(cls, charges: Sequence[Charge], *, limit: int, caller_id: UUID) -> Self:
        return cls.split(
            charges,
            limit=limit,
            item=lambda charge: ChargeOut.of(charge, caller_id=caller_id),
            cursor=lambda charge: charge.id,
        )
