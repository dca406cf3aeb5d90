"""Commission, and the time to pay a ride."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

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
