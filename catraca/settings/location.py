"""Presence and positions of drivers, community fences, driver locks."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from catraca.settings.values import Group, Seconds


class LocationSettings(Group):
    presence_timeout: Seconds = Field(
        default=timedelta(minutes=1), description="Time without a ping after which a driver goes offline."
    )
    idle_after: Seconds = Field(
        default=timedelta(minutes=5), description="Time without a ride after which a driver counts as idle."
    )
    position_interval: Seconds = Field(
        default=timedelta(seconds=10), description="Time between two positions of one driver in PostgreSQL."
    )
    ping_max_speed: float = Field(
        default=70, gt=0, le=1000, description="Metres a second; a ping that is further away is ignored."
    )
    ping_max_accuracy: float = Field(
        default=200, gt=0, le=100_000, description="Metres; a less precise ping does not move a driver."
    )
    community_edge_pings: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Number of consecutive clear sightings beyond a fence's edge that make a crossing.",
    )
    community_edge_dwell: Seconds = Field(
        default=timedelta(seconds=30),
        description="Time between two clear sightings beyond the edge that make a crossing too.",
    )
    lock_ttl: Annotated[Seconds, Field(ge=timedelta(seconds=1), le=timedelta(hours=1))] = Field(
        default=timedelta(seconds=15), description="Lifetime of a driver lock, unless the request has one."
    )
