"""Requests of operators about a ride."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from catraca.domains.rides.interventions.model import EndOutcome, EndReason
from catraca.platform.forms import Body, examples


class EndRideIn(Body):
    model_config = examples({"outcome": "completed", "reason": "forgotten", "fare_cents": 2110})

    outcome: EndOutcome = Field(description="`completed`: only a started ride.")
    reason: EndReason
    fare_cents: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        le=10_000_000,
        description="Fare of a completed ride. Left out: the estimate; without a destination it is required.",
    )

    @model_validator(mode="after")
    def _fare_of_completed_rides(self) -> Self:
        if self.outcome == "canceled" and self.fare_cents is not None:
            raise PydanticCustomError("fare_of_canceled_ride", "fare_of_canceled_ride")
        return self
