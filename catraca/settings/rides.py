"""Time limits of a ride's search and of its offers."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from catraca.settings.values import Duration, Group, Retention, Seconds


class RideSettings(Group):
    driver_response_timeout: Seconds = Field(
        default=timedelta(seconds=20), description="Lifetime of an offer to a driver."
    )
    global_matching_timeout: Seconds = Field(
        default=timedelta(minutes=5), description="How long Catraca searches a driver for one ride."
    )
    attempt_retention: Retention = Field(
        default=timedelta(days=90),
        description="How long attempts to accept a ride are kept after the ride's end.",
    )
    longest_ride: Annotated[Duration, Field(le=timedelta(days=7))] = Field(
        default=timedelta(hours=6),
        description="A longer ride is flagged for the operators, and the time beyond it is not charged.",
    )
    ride_top_speed: int = Field(
        default=120,
        ge=20,
        le=250,
        description="Kilometres an hour; a reported distance that would need more is not charged.",
    )
    free_cancellations: int = Field(
        default=3,
        ge=0,
        le=1000,
        description="Rides a passenger may cancel within an hour before the next request has to wait.",
    )
    cancellation_pause: Seconds = Field(
        default=timedelta(seconds=15),
        description="The first wait; it doubles with each further cancellation, up to 5 minutes.",
    )

    @model_validator(mode="after")
    def _an_offer_fits_into_the_search(self) -> Self:
        if self.driver_response_timeout > self.global_matching_timeout:
            raise ValueError("CATRACA_DRIVER_RESPONSE_TIMEOUT is longer than CATRACA_GLOBAL_MATCHING_TIMEOUT")
        return self
