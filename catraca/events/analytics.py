"""Events of analytics."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from catraca.events.rides import Point
from catraca.platform.event import Event


class MatchesFailing(Event, frozen=True, kw_only=True, tag="analytics.matches_failing"):
    """Too many searches ended without a driver; published once per region and window."""

    exchange = "analytics.events"
    about = "alert_id"

    alert_id: UUID
    region: Annotated[str, Meta(description="An H3 cell of resolution 5.", examples=["85a8100ffffffff"])]
    center: Annotated[Point, Meta(description="The centre of the region.")]
    window_starts_at: Annotated[datetime, Meta(description="The start of the counted time.")]
    window_ends_at: Annotated[
        datetime, Meta(description="The end of the counted time; it may be in the future.")
    ]
    matched: Annotated[int, Meta(description="Searches that found a driver, so far.", examples=[30])]
    failed: Annotated[int, Meta(description="Searches that found no driver, so far.", examples=[10])]
    failed_percent: Annotated[float, Meta(description="Share of the ended searches.", examples=[25.0])]
