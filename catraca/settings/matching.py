"""The search for drivers: how far, how often, how many."""

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator

from catraca.settings.values import Group, Retention, Seconds


class MatchingSettings(Group):
    max_attempts_per_search: int = Field(
        default=10, ge=1, le=1000, description="Number of drivers asked before the next search."
    )
    search_retry_interval: Seconds = Field(
        default=timedelta(seconds=30), description="Time between two searches that find no driver."
    )
    initial_search_radius: int = Field(
        default=5000, ge=1, le=500_000, description="Metres; radius of the first search."
    )
    max_search_radius: int = Field(default=15_000, ge=1, le=500_000, description="Metres; largest radius.")
    radius_increment: int = Field(
        default=2500, ge=0, le=500_000, description="Metres that each search adds to the radius."
    )
    offers_at_once: int = Field(
        default=1,
        ge=0,
        le=100,
        description="Number of drivers asked for one ride at a time; 0: operators offer rides by hand.",
    )
    search_retention: Retention = Field(
        default=timedelta(days=30), description="How long the result of each search is kept."
    )

    @model_validator(mode="after")
    def _radius_can_grow(self) -> Self:
        if self.initial_search_radius > self.max_search_radius:
            raise ValueError("CATRACA_INITIAL_SEARCH_RADIUS is larger than CATRACA_MAX_SEARCH_RADIUS")
        return self
