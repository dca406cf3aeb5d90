"""Events of drivers at work: online, offline or idle, in communities, and their positions on a ride."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event

DriverId = Annotated[UUID, Meta(description="The driver.")]
CommunityId = Annotated[UUID, Meta(description="The community.")]
Latitude = Annotated[float, Meta(description="Degrees north.", examples=[-12.9777])]
Longitude = Annotated[float, Meta(description="Degrees east.", examples=[-38.5016])]


class DriverOnline(Event, frozen=True, kw_only=True, tag="location.driver.online"):
    """A driver begins to work."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    lat: Annotated[float | None, Meta(description="Position, if accepted.", examples=[-12.9777])] = None
    lng: Annotated[float | None, Meta(description="Position, if accepted.", examples=[-38.5016])] = None


class DriverOffline(Event, frozen=True, kw_only=True, tag="location.driver.offline"):
    """A driver stops working."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    reason: Annotated[
        Literal["asked", "silent", "erased"],
        Meta(description="By request, after too long without a ping, or because the driver was erased."),
    ]


class DriverIdle(Event, frozen=True, kw_only=True, tag="location.driver.idle"):
    """A driver has been free for long; published once per such time."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    free_since: Annotated[datetime, Meta(description="Since when the driver is free.")]


class DriverEnteredCommunity(Event, frozen=True, kw_only=True, tag="location.driver.entered_community"):
    """A driver entered a community's fence; published once, also with noisy positions at the edge."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    community_id: CommunityId
    lat: Latitude
    lng: Longitude


class DriverLeftCommunity(Event, frozen=True, kw_only=True, tag="location.driver.left_community"):
    """An online driver left a community's fence, or the community was retired.

    A driver who goes offline leaves all communities; no event is published for that.
    """

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    community_id: CommunityId
    lat: Latitude
    lng: Longitude


class DriverUpdated(Event, frozen=True, kw_only=True, tag="location.driver.updated"):
    """A driver on a ride has moved: about once a second, dropped rather than late, and not in the outbox."""

    exchange = "location.events"
    about = "driver_id"

    driver_id: DriverId
    ride_id: Annotated[UUID, Meta(description="The ride the driver is on.")]
    lat: Latitude
    lng: Longitude
    recorded_at: Annotated[datetime, Meta(description="When the driver was there, by the driver's clock.")]
    accuracy_meters: Annotated[float | None, Meta(examples=[8.0])] = None
    speed_mps: Annotated[float | None, Meta(description="Metres a second.", examples=[9.5])] = None
    heading_degrees: Annotated[float | None, Meta(description="0 is north.", examples=[90.0])] = None
