"""Requests and responses about received money."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field

from catraca.domains.billing.captures.model import Capture, Provider, Receipt
from catraca.domains.billing.charges.model import Charge
from catraca.domains.billing.charges.schemas import ChargeOut
from catraca.domains.people import UserId
from catraca.platform.forms import Answer, Body, examples

MOST_CENTS = 10**11
EXAMPLE_REFERENCE = "E00000000202508141200abcdef12345"


class ReceiptIn(Body):
    model_config = Body.model_config | examples({"reference": EXAMPLE_REFERENCE, "amount_cents": 2550})

    reference: Annotated[
        str,
        Field(
            pattern=r"^[!-~]{1,100}$",
            description="The bank's own id of the payment; of a Pix the end-to-end id. It is booked once.",
        ),
    ]
    amount_cents: int = Field(ge=1, le=MOST_CENTS, description="What arrived on the account.")

    def receipt(self, *, by: UUID) -> Receipt:
        return Receipt(
            provider="pix_static",
            reference=self.reference,
            amount_cents=self.amount_cents,
            confirmed_by=UserId(by),
        )


class CaptureOut(Answer):
    model_config = examples(
        {
            "capture_id": "0198a8b2-3c00-7000-8000-000000000031",
            "provider": "pix_static",
            "reference": EXAMPLE_REFERENCE,
            "amount_cents": 2550,
            "excess_cents": 0,
            "captured_at": "2025-08-14T12:05:00Z",
            "confirmed_by": "0198a8b2-3c00-7000-8000-000000000041",
        }
    )

    capture_id: UUID
    provider: Provider
    reference: str
    amount_cents: int
    excess_cents: int = Field(description="The part that was received beyond the charge.")
    captured_at: datetime
    confirmed_by: UUID

    @classmethod
    def of(cls, capture: Capture) -> Self:
        return cls(
            capture_id=capture.id,
            provider=capture.provider,
            reference=capture.provider_ref,
            amount_cents=capture.amount_cents,
            excess_cents=capture.excess_cents,
            captured_at=capture.captured_at,
            confirmed_by=capture.confirmed_by,
        )


class BookedOut(Answer):
    capture: CaptureOut
    charge: ChargeOut

    @classmethod
    def of(cls, capture: Capture, charge: Charge, *, caller_id: UUID) -> Self:
        return cls(capture=CaptureOut.of(capture), charge=ChargeOut.of(charge, caller_id=caller_id))


class CapturesOut(Answer):
    charge: ChargeOut
    captures: list[CaptureOut] = Field(description="Oldest first.")
