"""Demand and alerts by HTTP."""

from datetime import timedelta
from typing import Any

import h3
import httpx
import pytest

from catraca.domains.analytics.model import cell_of, name_of, region_of
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.analytics.counts import count
from tests.domains.analytics.example_events import (
    FAR,
    HERE,
    NEARBY,
    NOON,
    failed,
    matched,
    requested,
)
from tests.servers import on_one_stack

pytestmark = on_one_stack

OPERATOR = bearer("operator")
HOUR = timedelta(hours=1)
PLACES = [HERE, NEARBY, FAR]


async def page(api: httpx.AsyncClient, resource: str, **query: Any) -> dict[str, Any]:
    answer = await api.get(f"/v1/analytics/{resource}", params=query, headers=OPERATOR)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def seen(api: httpx.AsyncClient, **query: Any) -> list[tuple[str, str]]:
    items = (await page(api, "demand", **query))["items"]
    return [(item["hour"], item["cell"]) for item in items]


async def test_row_has_all_counts_of_an_hour_and_cell(
    figures_api: httpx.AsyncClient, figures: Database
) -> None:
    await count(figures, requested(), failed(), matched(waited=timedelta(seconds=9)), matched(waited=HOUR))
    assert await page(figures_api, "demand") == {
        "items": [
            {
                "hour": "2031-05-30T12:00:00Z",
                "cell": h3.latlng_to_cell(HERE.lat, HERE.lng, 7),
                "region": h3.latlng_to_cell(HERE.lat, HERE.lng, 5),
                "center": {"lat": -23.55938, "lng": -46.62906},
                "requests": 1,
                "reassigned": 0,
                "matched": 2,
                "failed": 1,
                "failed_percent": 33.3,
                "mean_match_seconds": 1804.5,
                "max_match_seconds": 3600.0,
            }
        ],
        "next": None,
    }


async def test_row_without_ended_searches_has_no_percentage(
    figures_api: httpx.AsyncClient, figures: Database
) -> None:
    await count(figures, requested())
    (item,) = (await page(figures_api, "demand"))["items"]
    assert [item[name] for name in ("failed_percent", "mean_match_seconds", "max_match_seconds")] == [
        None
    ] * 3


async def test_demand_has_pages_with_the_latest_hours_first(
    figures_api: httpx.AsyncClient, figures: Database
) -> None:
    hours = [NOON + HOUR * late for late in range(3)]
    await count(figures, *(requested(at=hour, pickup=place) for hour in hours for place in PLACES))
    expected = [
        (f"{hour:%Y-%m-%dT%H:%M:%SZ}", cell)
        for hour in hours[::-1]
        for cell in sorted((name_of(cell_of(place)) for place in PLACES), reverse=True)
    ]
    rows: list[tuple[str, str]] = []
    before: dict[str, str] = {}
    while len(rows) < 9:
        answer = await page(figures_api, "demand", limit=2, **before)
        rows += [(item["hour"], item["cell"]) for item in answer["items"]]
        before = {"before": answer["next"]}
    assert answer["next"] is None
    assert rows == expected == await seen(figures_api)


async def test_each_filter_selects_matching_rows(figures_api: httpx.AsyncClient, figures: Database) -> None:
    await count(figures, requested(), failed(pickup=NEARBY), requested(pickup=FAR, at=NOON + HOUR))
    here, nearby, far = (
        (f"2031-05-30T{hour}:00:00Z", name_of(cell_of(place)))
        for hour, place in ((12, HERE), (12, NEARBY), (13, FAR))
    )
    both = sorted([here, nearby], reverse=True)
    region = name_of(region_of(cell_of(HERE)))
    one = (NOON + HOUR).isoformat()
    expected: list[tuple[dict[str, object], list[tuple[str, str]]]] = [
        ({}, [far, *both]),
        ({"from": one}, [far]),
        ({"to": one}, both),
        ({"from": (NOON + timedelta(seconds=1)).isoformat()}, [far]),
        ({"cell": here[1]}, [here]),
        ({"cell": region}, both),
        ({"cell": h3.cell_to_parent(region, 0)}, [far, *both]),
        ({"cell": region, "failed_only": True}, [nearby]),
        ({"failed_only": True, "from": one}, []),
        ({"cell": "87ffffffffffff0"}, []),
        ({"before": "0-000000000000000"}, []),
    ]
    for query, rows in expected:
        assert await seen(figures_api, **query) == rows, query


async def test_alerts_have_pages_with_the_newest_first(
    figures_api: httpx.AsyncClient, figures: Database
) -> None:
    for late in range(3):
        await count(figures, *(failed(at=NOON + HOUR * late) for _ in range(10)))
    first = await page(figures_api, "alerts", limit=2)
    rest = await page(figures_api, "alerts", limit=2, before=first["next"])
    assert rest["next"] is None
    items = [*first["items"], *rest["items"]]
    assert [item["window_starts_at"][11:13] for item in items] == ["14", "13", "12"]
    (item,) = rest["items"]
    assert item == {
        "id": item["id"],
        "at": item["at"],
        "region": h3.latlng_to_cell(HERE.lat, HERE.lng, 5),
        "center": item["center"],
        "window_starts_at": "2031-05-30T12:00:00Z",
        "window_ends_at": "2031-05-30T13:00:00Z",
        "matched": 0,
        "failed": 10,
        "failed_percent": 100.0,
    }
    assert h3.latlng_to_cell(item["center"]["lat"], item["center"]["lng"], 5) == item["region"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"cell": "88a8100c01fffff"}, "string_pattern_mismatch"),
        ({"cell": "Salvador"}, "string_pattern_mismatch"),
        ({"cell": "87A8100C0FFFFFF"}, "string_pattern_mismatch"),
        ({"from": "1748606400"}, "datetime_parsing"),
        ({"to": "2031-05-30T12:00:00"}, "timezone_aware"),
        ({"failed_only": "some"}, "bool_parsing"),
        ({"before": "537-"}, "string_pattern_mismatch"),
        ({"limit": 0}, "greater_than_equal"),
        ({"limit": 1001}, "less_than_equal"),
    ],
)
async def test_invalid_parameters_are_refused_by_name(
    figures_api: httpx.AsyncClient, query: dict[str, Any], code: str
) -> None:
    answer = await figures_api.get("/v1/analytics/demand", params=query, headers=OPERATOR)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["where"], error["code"]) == (f"query.{next(iter(query))}", code)
