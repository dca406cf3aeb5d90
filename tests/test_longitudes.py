"""Requests take a longitude as `lng` and as `lon`; answers keep the name of their route."""

import re
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import pytest

from catraca.platform.http.health import Health
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.people.person import Person
from tests.servers import on_one_stack

# Names do not depend on the servers.
pytestmark = on_one_stack

LAT, LNG = -12.9777, -38.5016
WAY = {"pickup_lat": LAT, "pickup_lon": LNG, "dropoff_lat": LAT + 0.1, "dropoff_lon": LNG}
PLACE = {"lat": LAT, "lng": LNG}
ASKED = {
    "type": "normal",
    "passengerLat": LAT,
    "passengerLng": LNG,
    "destinationLat": LAT + 0.1,
    "destinationLng": LNG,
}
NAME = re.compile(r"(.*)(lng|lon|Lng|Lon)")
OTHERS = {"lng": "lon", "lon": "lng", "Lng": "Lon", "Lon": "Lng"}
Where = Literal["json", "params"]


def other_name(name: str) -> str:
    """The other name of a longitude; any other name stays."""
    found = NAME.fullmatch(name)
    return found[1] + OTHERS[found[2]] if found else name


def renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [renamed(one) for one in value]
    return {other_name(key): renamed(one) for key, one in value.items()} if isinstance(value, dict) else value


def with_both(value: Any) -> Any:
    """With both names, and a different value under the second one."""
    if isinstance(value, list):
        return [with_both(one) for one in value]
    if not isinstance(value, dict):
        return value
    both = {key: with_both(one) for key, one in value.items()}
    return both | {other_name(key): LNG + 1 for key in value if other_name(key) != key}


@pytest.fixture
async def driver(api: httpx.AsyncClient) -> Person:
    person = await Person("driver").known_to(api)
    path = f"/v1/location/drivers/{person.id}/status"
    assert (await api.put(path, json={"online": True}, headers=person.headers)).status_code == 200
    return person


def requests_of(driver: Person) -> Iterator[tuple[str, str, Where, Any, dict[str, str]]]:
    """A request to every route that takes a longitude: method, path, place and content, headers."""
    mine = f"/v1/location/drivers/{driver.id}"
    yield "POST", "/v1/quotes", "json", WAY, bearer()
    yield "POST", "/v1/rides", "json", WAY, bearer()
    yield "POST", "/api/governance/ride/request", "json", ASKED, bearer()
    yield "PUT", f"{mine}/status", "json", {"online": True, "position": PLACE}, driver.headers
    yield "POST", f"{mine}/pings", "json", PLACE, driver.headers
    yield "POST", f"{mine}/pings", "json", [PLACE], driver.headers
    gateway = [{"driver_id": str(driver.id), **PLACE}]
    yield "POST", "/v1/location/pings", "json", gateway, bearer("service")
    yield "GET", "/v1/location/drivers/nearby", "params", PLACE, bearer("operator")
    yield "GET", "/v1/communities/at", "params", PLACE, bearer()


async def test_both_names_are_accepted_but_not_together(api: httpx.AsyncClient, driver: Person) -> None:
    for method, path, where, content, headers in requests_of(driver):
        for sent in (content, renamed(content)):
            owner = bearer() if method == "POST" and "ride" in path else headers
            answer = await api.request(method, path, **{where: sent}, headers=owner)
            assert answer.is_success, (path, sent, answer.text)
        answer = await api.request(method, path, **{where: with_both(content)}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid"), path
        assert {error["code"] for error in answer.json()["errors"]} == {"extra_forbidden"}, path


async def test_either_name_gives_the_same_place(api: httpx.AsyncClient, driver: Person) -> None:
    ride = (await api.post("/v1/rides", json=renamed(WAY), headers=bearer())).json()
    assert {name: ride[name] for name in WAY} == WAY
    asked = await api.post("/api/governance/ride/request", json=renamed(ASKED), headers=bearer())
    assert {name: asked.json()["ride"][name] for name in ASKED} == ASKED
    quotes = [await api.post("/v1/quotes", json=way, headers=bearer()) for way in (WAY, renamed(WAY))]
    assert quotes[0].json() == quotes[1].json()
    path = f"/v1/location/drivers/{driver.id}/pings"
    here = {"lat": 51.5, "lon": -0.1}
    assert (await api.post(path, json=here, headers=driver.headers)).json()["accepted"] == 1
    query = here | {"all": "true", "radius_m": "10"}
    found = await api.get("/v1/location/drivers/nearby", params=query, headers=bearer("operator"))
    places = [(one["driver_id"], one["lat"], one["lng"]) for one in found.json()["drivers"]]
    assert places == [(str(driver.id), 51.5, -0.1)]


async def test_wrong_value_is_reported_under_the_name_sent(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/quotes", json=renamed(WAY) | {"pickup_lng": 181}, headers=bearer())
    assert [error["where"] for error in answer.json()["errors"]] == ["body.pickup_lng"]


async def test_every_longitude_of_a_request_has_both_names(parts: Parts) -> None:
    found = dict(longitudes(build_app(parts, Health()).openapi()))
    assert found.keys() >= {"lng", "pickup_lon", "dropoff_lon", "passengerLng", "destinationLng"}
    for name, descriptions in found.items():
        assert all(f"`{other_name(name)}`" in words for words in descriptions), name


def longitudes(document: dict[str, Any]) -> dict[str, list[str]]:
    """The names of longitudes in requests, with their descriptions."""
    found: dict[str, list[str]] = {}

    def note(name: str, description: str) -> None:
        if NAME.fullmatch(name):
            found.setdefault(name, []).append(description)

    def look_into(schema: Any) -> None:
        if isinstance(schema, list):
            for one in schema:
                look_into(one)
        elif isinstance(schema, dict):
            if "$ref" in schema:
                look_into(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
            for name, field in schema.get("properties", {}).items():
                note(name, field.get("description", ""))
            for key, one in schema.items():
                if key not in ("examples", "example"):
                    look_into(one)

    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                note(parameter["name"], parameter.get("description", ""))
            look_into(operation.get("requestBody", {}))
    return found
