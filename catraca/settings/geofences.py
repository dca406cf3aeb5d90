"""Rides in communities, and the confirmation of drivers from elsewhere."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from catraca.settings.values import Group, Rate, Seconds, also_without_prefix


class GeofenceSettings(Group):
    enable_geofence: bool = Field(
        default=True,
        validation_alias=also_without_prefix("ENABLE_GEOFENCE"),
        description="Whether rides of type `comunidade` search the community's own drivers first.",
    )
    confirmation_ttl: Annotated[Seconds, Field(ge=timedelta(seconds=1))] = Field(
        default=timedelta(minutes=5),
        description="Time a passenger has to confirm drivers from elsewhere.",
    )
    rate_limit_confirmation: Rate = Field(
        default="10/minute", description="Wrong confirmation tokens from one passenger."
    )
