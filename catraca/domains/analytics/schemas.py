"""What the routes of figures take and give."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.analytics.model import (
    EPOCH,
    HOUR,
    Alert,
    Cell,
    Demand,
    center_of,
    name_of,
    percent_failed,
    region_of,
)
from catraca.events.rides import Point

DEMAND: JsonDict = {
    "hour": "2025-08-14T12:00:00Z",
    "cell": "87a8100c0ffffff",
    "region": "85a8100ffffffff",
    "center": {"lat": -23.55938, "lng": -46.62906},
    "requests": 42,
    "reassigned": 1,
    "matched": 36,
    "failed": 4,
    "failed_percent": 10.0,
    "mean_match_seconds": 17.25,
    "max_match_seconds": 141.8,
}
ALERT: JsonDict = {
    "id": "0198a7f0-5d2e-4c41-9f0a-3b1c2d4e5f60",
    "at": "2025-08-14T12:40:00Z",
    "region": "85a8100ffffffff",
    "center": {"lat": -23.57107, "lng": -46.68042},
    "window_starts_at": "2025-08-14T12:00:00Z",
    "window_ends_at": "2025-08-14T13:00:00Z",
    "matched": 30,
    "failed": 10,
    "failed_percent": 25.0,
}

# A cell as H3 writes it, of our own resolution or a coarser one. One that does not exist has no demand.
CellName = Annotated[str, Field(pattern="^8[0-7][0-9a-f]{13}$", examples=["85a8100ffffffff"])]
# The hours since 1970 and the cell of the last row.
CURSOR_PATTERN = "^([0-9]{1,7})-([0-9a-f]{15})$"
Cursor = Annotated[str, Field(pattern=CURSOR_PATTERN)]


def place_of(cursor: str) -> tuple[datetime, Cell]:
    match = re.match(CURSOR_PATTERN, cursor)
    assert match is not None
    return EPOCH + int(match[1]) * HOUR, Cell(int(match[2], 16))


def _cursor(row: Demand) -> str:
    return f"{(row.hour - EPOCH) // HOUR}-{name_of(row.cell)}"


class PointOut(BaseModel):
    lat: float
    lng: float

    @classmethod
    def of(cls, point: Point) -> Self:
        return cls(lat=point.lat, lng=point.lng)


class DemandOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [DEMAND]})

    hour: datetime = Field(description="When it begins.")
    cell: str = Field(description="Where rides begin: a cell of H3 at resolution 7, about 5 km².")
    region: str = Field(description="The cell at resolution 5 that it lies in.")
    center: PointOut = Field(description="The middle of the cell.")
    requests: int = Field(description="Rides asked for.")
    reassigned: int = Field(description="Searches begun anew because a driver gave the ride up.")
    matched: int = Field(description="Searches that ended with a driver in this hour.")
    failed: int = Field(description="Searches that ended without one in this hour.")
    failed_percent: float | None = Field(description="Of those that ended; null if none did.")
    mean_match_seconds: float | None = Field(description="From the search's beginning to its match.")
    max_match_seconds: float | None

    @classmethod
    def of(cls, row: Demand) -> Self:
        counts = row.counts
        return cls(
            hour=row.hour,
            cell=name_of(row.cell),
            region=name_of(region_of(row.cell)),
            center=PointOut.of(center_of(row.cell)),
            requests=counts.requests,
            reassigned=counts.reassigned,
            matched=counts.matched,
            failed=counts.failed,
            failed_percent=percent_failed(matched=counts.matched, failed=counts.failed),
            mean_match_seconds=counts.match_sum_ms / counts.matched / 1000 if counts.matched else None,
            max_match_seconds=counts.match_max_ms / 1000 if counts.matched else None,
        )


class DemandPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [DEMAND], "next": None}]})

    items: list[DemandOut]
    next: str | None = Field(description="Ask for what follows with `before` set to this; null at the end.")

    @classmethod
    def of(cls, rows: Sequence[Demand], *, limit: int) -> Self:
        """From one row more than the page takes: what is left over says that there is a next page."""
        shown = rows[:limit]
        return cls(
            items=[DemandOut.of(row) for row in shown],
            next=_cursor(shown[-1]) if len(rows) > limit else None,
        )


class AlertOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ALERT]})

    id: UUID
    at: datetime
    region: str = Field(description="A cell of H3 at resolution 5, about 250 km².")
    center: PointOut = Field(description="The middle of it.")
    window_starts_at: datetime
    window_ends_at: datetime
    matched: int = Field(description="Searches that found a driver, when it was noticed.")
    failed: int = Field(description="Searches that found none, when it was noticed.")
    failed_percent: float | None

    @classmethod
    def of(cls, alert: Alert) -> Self:
        return cls(
            id=alert.id,
            at=alert.at,
            region=name_of(alert.window.region),
            center=PointOut.of(center_of(alert.window.region)),
            window_starts_at=alert.window.starts_at,
            window_ends_at=alert.window.ends_at,
            matched=alert.matched,
            failed=alert.failed,
            failed_percent=percent_failed(matched=alert.matched, failed=alert.failed),
        )


class AlertPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [ALERT], "next": None}]})

    items: list[AlertOut]
    next: UUID | None = Field(description="Ask for what follows with `before` set to this; null at the end.")

    @classmethod
    def of(cls, alerts: Sequence[Alert], *, limit: int) -> Self:
        items = [AlertOut.of(alert) for alert in alerts[:limit]]
        return cls(items=items, next=items[-1].id if len(alerts) > limit else None)
