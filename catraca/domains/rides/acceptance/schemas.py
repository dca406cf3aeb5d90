"""Requests and responses about accepting a ride."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.rides.acceptance.model import AcceptedRide, Failure, RecordedAttempt
from catraca.domains.rides.model import Status
from catraca.domains.rides.schemas import DRIVER_ID, MOMENT, PASSENGER_ID, PLACES, RIDE_ID
from catraca.platform.forms import Answer, Body, Next, examples, split_page

Key = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")]


class AcceptIn(Body):
    model_config = examples(
        {"driver_id": DRIVER_ID, "idempotency_key": "8b7c0c1e-6f0e-4f5e-9a55-5d2f0f6d7a10"}
    )

    driver_id: UUID | None = Field(default=None, description="Left out: the caller.")
    idempotency_key: Key | None = Field(
        default=None,
        description="Or the header `Idempotency-Key`. Left out: all attempts at one offer count as one.",
    )


class AcceptOut(BaseModel):
    """The winner's answer.

    In a repeat after the driver gave the ride up, or after its end, passenger and places are null.
    """

    model_config = examples(
        {
            "ride_id": RIDE_ID,
            "status": "ACCEPTED",
            "driver_id": DRIVER_ID,
            "passenger_id": PASSENGER_ID,
            "accepted_at": MOMENT,
            **PLACES,
        }
    )

    ride_id: UUID
    status: Literal["ACCEPTED"] = "ACCEPTED"
    driver_id: UUID
    passenger_id: UUID | None = Field(description="Null when this driver is not driving the ride.")
    accepted_at: datetime
    pickup_lat: float | None
    pickup_lon: float | None
    dropoff_lat: float | None
    dropoff_lon: float | None

    @classmethod
    def of(cls, accepted: AcceptedRide) -> Self:
        details = accepted.details
        return cls(
            ride_id=accepted.ride_id,
            driver_id=accepted.driver_id,
            passenger_id=details and details.passenger_id,
            accepted_at=accepted.accepted_at,
            pickup_lat=details and details.pickup_lat,
            pickup_lon=details and details.pickup_lon,
            dropoff_lat=details and details.dropoff_lat,
            dropoff_lon=details and details.dropoff_lon,
        )


class AttemptOut(Answer):
    attempt_id: UUID = Field(validation_alias="id")
    driver_id: UUID
    offer_id: UUID | None
    idempotency_key: str
    status: Literal["SUCCESS", "FAILED"]
    failure_reason: Failure | None
    ride_status: Status = Field(description="The ride's status at that time.")
    attempt_at: datetime
    actor_id: UUID = Field(description="The caller: the driver, or an operator in the driver's name.")
    request_id: str | None
    user_agent: str | None
    ip_address: str | None


class AttemptPage(BaseModel):
    attempts: list[AttemptOut]
    next: Next[UUID]

    @classmethod
    def of(cls, attempts: Sequence[RecordedAttempt], *, limit: int) -> Self:
        page, after = split_page(attempts, limit=limit, cursor=lambda attempt: attempt.id)
        return cls(attempts=[AttemptOut.model_validate(attempt) for attempt in page], next=after)
