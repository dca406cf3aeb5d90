"""Communities by the client: find, request a ride and confirm, on a real server."""

import asyncio
import random
from typing import Any
from uuid import UUID

import httpx
import pytest

from catraca.client import CommunityRide, Ping, Question, Refused
from tests.client.people import person
from tests.conftest import bearer
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def new_community(api_url: str) -> tuple[UUID, float, float]:
    """Create a square community of some two kilometres at a random place; returns its id and middle."""
    lat, lng = random.uniform(30, 60), random.uniform(-60, 60)
    ring = [[lng + east, lat + north] for east, north in ((0, 0), (0.02, 0), (0.02, 0.02), (0, 0.02), (0, 0))]
    body: dict[str, Any] = {"name": "Vila", "fence": {"type": "Polygon", "coordinates": [ring]}}
    async with httpx.AsyncClient(base_url=api_url, headers=bearer("operator")) as operator:
        made = await operator.post("/v1/communities", json=body)
    assert made.status_code == 201, made.text
    return UUID(made.json()["community_id"]), lat + 0.01, lng + 0.01


async def test_confirmed_question_becomes_one_ride(api_url: str) -> None:
    community_id, lat, lng = await new_community(api_url)
    async with person(api_url, "passenger") as passenger:
        (found,) = await passenger.communities.at(lat=lat, lng=lng)
        assert (found.community_id, found.name) == (community_id, "Vila")
        assert (await passenger.communities.read(community_id)).fence is not None

        question = await passenger.communities.request_ride(lat=lat, lng=lng, origin="Praça", price=12.5)
        assert isinstance(question, Question)
        assert (len(question.token), question.changes.tier, question.changes.wait_seconds) == (
            64,
            "open",
            None,
        )
        again = await passenger.communities.request_ride(lat=lat, lng=lng, origin="Praça", price=12.5)
        assert again == question

        rides = await asyncio.gather(*(passenger.communities.confirm(question.token) for _ in range(4)))
        assert len({ride.id for ride in rides}) == 1
        assert (rides[0].tier, rides[0].price, rides[0].community_id) == ("open", 12.5, community_id)
        read = await passenger.rides.read(rides[0].id)
        assert (read.type, read.tier, read.pickup_address) == ("comunidade", "open", "Praça")


async def test_community_driver_makes_the_question_unnecessary(api_url: str) -> None:
    community_id, lat, lng = await new_community(api_url)
    async with person(api_url, "passenger") as passenger, person(api_url, "driver") as driver:
        await driver.location.go_online(Ping(lat=lat, lng=lng))
        ride = await passenger.communities.request_ride(lat=lat, lng=lng)
        assert isinstance(ride, CommunityRide)
        assert (ride.tier, ride.community_id) == ("home", community_id)


async def test_impossible_community_ride_is_refused(api_url: str) -> None:
    async with person(api_url, "passenger") as passenger:
        with pytest.raises(Refused) as nowhere:
            await passenger.communities.request_ride(lat=-60.0, lng=1.0)
        with pytest.raises(Refused) as unknown:
            await passenger.communities.confirm("0" * 64)
    assert (nowhere.value.code, unknown.value.code) == ("no_community_here", "confirmation_token_invalid")
