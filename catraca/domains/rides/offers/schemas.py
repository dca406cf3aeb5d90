"""Requests and responses about offers."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.rides.model import Response
from catraca.domains.rides.offers.model import MadeOffers, RejectReason, SkipReason
from catraca.domains.rides.schemas import DRIVER_ID, MOMENT, OFFER_ID, PASSENGER_ID
from catraca.platform.forms import Answer, Body, examples

DRIVERS_PER_REQUEST = 1000


class OffersIn(Body):
    model_config = examples({"driver_ids": [DRIVER_ID], "ttl_seconds": 20})

    driver_ids: Annotated[list[UUID], Field(min_length=1, max_length=DRIVERS_PER_REQUEST)]
    ttl_seconds: Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)] | None = Field(
        default=None, description="Time to answer; left out: the setting."
    )


class RideOfferOut(Answer):
    offer_id: UUID = Field(validation_alias="id")
    driver_id: UUID
    attempt: int = Field(description="The number of the offer, counted per ride.")
    round: int
    offered_at: datetime
    expires_at: datetime
    response: Response | None = None
    responded_at: datetime | None = None
    reason: str | None = None


class SkippedOut(BaseModel):
    driver_id: UUID
    reason: SkipReason


class OffersOut(BaseModel):
    model_config = examples(
        {
            "offers": [
                {
                    "offer_id": OFFER_ID,
                    "driver_id": DRIVER_ID,
                    "attempt": 1,
                    "round": 1,
                    "offered_at": MOMENT,
                    "expires_at": "2025-08-14T12:00:20Z",
                }
            ],
            "skipped": [{"driver_id": PASSENGER_ID, "reason": "busy"}],
        }
    )

    offers: list[RideOfferOut]
    skipped: list[SkippedOut] = Field(description="Drivers that got no offer, and the reason.")

    @classmethod
    def of(cls, made: MadeOffers) -> Self:
        return cls(
            offers=[RideOfferOut.model_validate(offer) for offer in made.offers],
            skipped=[
                SkippedOut(driver_id=driver_id, reason=reason) for driver_id, reason in made.skipped.items()
            ],
        )


class RejectIn(Body):
    model_config = examples({"driver_id": DRIVER_ID, "reason": "too_far"})

    driver_id: UUID | None = Field(default=None, description="Left out: the caller.")
    reason: RejectReason | None = None
