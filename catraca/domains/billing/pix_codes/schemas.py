"""Responses with Pix codes."""

from typing import Self

from pydantic import Field

from catraca.domains.billing.pix_codes.service import PixCode
from catraca.platform.forms import Answer


class PixCodeOut(Answer):
    code: str = Field(description="For copying into the bank's app (“Pix copia e cola”).")
    qr_svg: str = Field(description="The same code as a picture: an `svg` element.")
    reference: str = Field(description="Comes back on the co-operative's bank statement.")
    amount_cents: int = Field(description="What is still due.")
    currency: str

    @classmethod
    def of(cls, pix: PixCode) -> Self:
        return cls(
            code=pix.code,
            qr_svg=pix.qr_svg,
            reference=pix.reference,
            amount_cents=pix.charge.due_cents,
            currency=pix.charge.currency,
        )
