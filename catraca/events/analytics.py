"""What is told about figures: that they are bad."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from catraca.events.rides import Point
from catraca.platform.event import Event


class MatchesFailing(Event, frozen=True, kw_only=True, tag="analytics.matches_failing"):
    """Too many searches for a driver ended without one: told once for each region and window."""

    exchange = "analytics.events"
    about = "alert_id"

    alert_id: UUID
    region: Annotated[
        str, Meta(description="Where: a cell of H3 at resolution 5.", examples=["85a8100ffffffff"])
    ]
    center: Annotated[Point, Meta(description="The middle of it.")]
    window_starts_at: Annotated[datetime, Meta(description="Of the time that is counted.")]
    window_ends_at: Annotated[datetime, Meta(description="When it ends; it may still be going on.")]
    matched: Annotated[int, Meta(description="Searches that found a driver, so far.", examples=[30])]
    failed: Annotated[int, Meta(description="Searches that found none, so far.", examples=[10])]
    failed_percent: Annotated[float, Meta(description="Of both together.", examples=[25.0])]
