"""Quotes over HTTP, by the configured tariff."""

import httpx
import pytest

from catraca.domains.fares import Tariff, fare_cents
from catraca.platform.geo import Place, estimate_trip
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.support.http import served

WAY = {"pickup_lat": -12.9777, "pickup_lon": -38.5016, "dropoff_lat": -13.0102, "dropoff_lon": -38.5326}
TRIP = estimate_trip(Place(-12.9777, -38.5016), Place(-13.0102, -38.5326))


async def test_quote_has_distance_duration_and_fare(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/quotes", json=WAY, headers=bearer())
    tariff = Tariff(base_cents=500, per_km_cents=180, per_minute_cents=30, minimum_cents=800, currency="BRL")
    assert answer.status_code == 200
    assert answer.json() == {
        "distance_meters": TRIP.distance_meters,
        "duration_seconds": TRIP.duration_seconds,
        "fare_cents": fare_cents(tariff, TRIP),
        "currency": "BRL",
    }


async def test_quote_uses_the_configured_tariff(parts: Parts) -> None:
    own = {
        "tariff_base_cents": 1,
        "tariff_per_km_cents": 1000,
        "tariff_per_minute_cents": 0,
        "tariff_minimum_cents": 99_999,
        "currency": "EUR",
    }
    async with served(parts, **own) as there, there.client() as client:
        answer = (await client.post("/v1/quotes", json=WAY, headers=bearer())).json()
        assert (answer["fare_cents"], answer["currency"]) == (99_999, "EUR")
        further = WAY | {"dropoff_lat": -23.55, "dropoff_lon": -46.63}
        answer = (await client.post("/v1/quotes", json=further, headers=bearer())).json()
        assert answer["fare_cents"] == 1 + answer["distance_meters"]


@pytest.mark.parametrize("role", ["passenger", "driver", "operator"])
async def test_quotes_need_a_token_of_any_role(api: httpx.AsyncClient, role: str) -> None:
    assert (await api.post("/v1/quotes", json=WAY, headers=bearer(role))).status_code == 200
    assert (await api.post("/v1/quotes", json=WAY)).status_code == 401


async def test_quote_needs_pickup_and_dropoff(api: httpx.AsyncClient) -> None:
    for field in WAY:
        body = {name: value for name, value in WAY.items() if name != field}
        answer = await api.post("/v1/quotes", json=body, headers=bearer())
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
