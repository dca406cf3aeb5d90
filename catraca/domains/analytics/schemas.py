"""Fields and response bodies of analytics."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field
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
from catraca.platform.forms import Page, examples

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

# The name of an H3 cell of resolution 7 or coarser. A name without a cell has no demand.
CellName = Annotated[str, Field(pattern="^8[0-7][0-9a-f]{13}$", examples=["85a8100ffffffff"])]
# The hours since 1970 and the cell of the last row of a page.
CURSOR_PATTERN = "^([0-9]{1,7})-([0-9a-f]{15})$"
DemandCursor = Annotated[str, Field(pattern=CURSOR_PATTERN)]


def position_of(cursor: str) -> tuple[datetime, Cell]:
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
    model_config = examples(DEMAND)

    hour: datetime = Field(description="The start of the hour.")
    cell: str = Field(description="The H3 cell of the pickup, resolution 7, about 5 km².")
    region: str = Field(description="The H3 cell of resolution 5 that contains it.")
    center: PointOut = Field(description="The centre of the cell.")
    requests: int = Field(description="Requested rides.")
    reassigned: int = Field(description="Searches started again because the driver canceled.")
    matched: int = Field(description="Searches that found a driver in this hour.")
    failed: int = Field(description="Searches that ended without a driver in this hour.")
    failed_percent: float | None = Field(description="Share of the ended searches; null if none ended.")
    mean_match_seconds: float | None = Field(description="From the start of the search to the match.")
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


class DemandPage(Page[DemandOut, str]):
    model_config = examples({"items": [DEMAND], "next": None})

    @classmethod
    def of(cls, rows: Sequence[Demand], *, limit: int) -> Self:
        return cls.split(rows, limit=limit, item=DemandOut.of, cursor=_cursor)


class AlertOut(BaseModel):
    model_config = examples(ALERT)

    id: UUID
    at: datetime
    region: str = Field(description="An H3 cell of resolution 5, about 250 km².")
    center: PointOut = Field(description="The centre of the region.")
    window_starts_at: datetime
    window_ends_at: datetime
    matched: int = Field(description="Searches with a driver at the time of the alert.")
    failed: int = Field(description="Searches without a driver at the time of the alert.")
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


class AlertPage(Page[AlertOut, UUID]):
    model_config = examples({"items": [ALERT], "next": None})

    @classmethod
    def of(cls, alerts: Sequence[Alert], *, limit: int) -> Self:
        return cls.split(alerts, limit=limit, item=AlertOut.of, cursor=lambda alert: alert.id)
