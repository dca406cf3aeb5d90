"""Requests about trips."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from catraca.domains.rides.trips.model import CancelReason
from catraca.platform.forms import Body, Reason, examples


def _number(value: object) -> object:
    """Allow 12 and 12.0: JSON has one kind of number. Refuse "12" and true."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise PydanticCustomError("int_type", "int_type")
    return value


class CompleteIn(Body):
    model_config = examples({})

    distance_meters: Annotated[int, Field(ge=0, le=2_000_000), BeforeValidator(_number)] | None = Field(
        default=None, description="Distance driven; required for a ride without a destination."
    )


class CancelRideIn(Body):
    model_config = examples({"reason": "changed_plans"})

    reason: CancelReason = Field(
        description="The refusal `cancel_reason_invalid` lists the reasons that the caller may give."
    )
    note: Reason | None = Field(default=None, description="For the operators.")
