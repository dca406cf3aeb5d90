"""From a passenger's request to the counts, with all roles running."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.analytics.counts import demand
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.roles import own_parts, working

CREW = ["relay", "dispatcher", "housekeeper"]
WAY = {"pickup_lat": -12.9777, "pickup_lon": -38.5016, "dropoff_lat": -13.0102, "dropoff_lon": -38.5326}
FAST_SETTINGS = {
    "global_matching_timeout": timedelta(seconds=1),
    "driver_response_timeout": timedelta(seconds=1),
    "search_retry_interval": timedelta(seconds=1),
    "failure_alert_minimum": 1,
}


@pytest.fixture
async def parts(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings, **FAST_SETTINGS) as parts:
        yield parts


async def test_ride_without_a_driver_is_counted(parts: Parts) -> None:
    operator = bearer("operator")
    async with served(parts) as serving, serving.client() as api, working(parts, CREW):
        made = await api.post("/v1/rides", json=WAY, headers=bearer("passenger"))
        assert made.status_code == 201, made.text

        async def counted() -> bool:
            rows = await demand(parts.database)  # two rows if a new hour begins
            return [sum(row[key] for row in rows) for key in ("requests", "matched", "failed")] == [1, 0, 1]

        await until(counted)
        (alert,) = (await get(api, "/v1/analytics/alerts", operator))["items"]
        query = f"/v1/audit?action=analytics.*&subject_id={alert['id']}"
        (line,) = await until(lambda: lines(api, query, operator))
        assert line["action"] == "analytics.matches_failing"


async def get(api: httpx.AsyncClient, path: str, operator: dict[str, str]) -> dict[str, Any]:
    answer = await api.get(path, headers=operator)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def lines(api: httpx.AsyncClient, query: str, operator: dict[str, str]) -> list[dict[str, Any]]:
    return (await get(api, query, operator))["items"]
