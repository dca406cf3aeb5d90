"""Commission, the time to pay a ride, and the Pix key that receives the money."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from catraca.settings.values import Duration, Group


class BillingSettings(Group):
    commission_basis_points: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Part of each fare that the driver does not keep; 100 are 1 %.",
    )
    payment_timeout: Annotated[Duration, Field(le=timedelta(days=365))] | None = Field(
        default=None, description="Time to pay a completed ride; it can be paid later too. Unset: no end."
    )
    pix_key: Annotated[str, Field(max_length=77, pattern=r"^[!-~]+$")] | None = Field(
        default=None, description="The co-operative's Pix key, which receives fares. Unset: no Pix."
    )
    pix_name: Annotated[str, Field(max_length=25)] | None = Field(
        default=None, description="Name of the Pix key's owner, as the passenger's bank shows it."
    )
    pix_city: Annotated[str, Field(max_length=15)] | None = Field(
        default=None, description="City of the Pix key's owner."
    )

    @model_validator(mode="after")
    def _pix_is_complete(self) -> Self:
        for name in ("pix_name", "pix_city"):
            if self.pix_key and not getattr(self, name):
                raise ValueError(f"CATRACA_PIX_KEY needs CATRACA_{name.upper()}, which the code shows")
        return self
