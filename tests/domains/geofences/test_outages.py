"""Requests and confirmations without Redis."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

import pytest

from tests.domains.geofences.village import OUTSIDE_METERS, Village
from tests.domains.location.town import Town, redis_emptied, redis_frozen, redis_stopped

Way = Callable[[Town], AbstractAsyncContextManager[None]]
each_way = pytest.mark.parametrize(
    "away", [redis_frozen, redis_stopped, redis_emptied], ids=lambda way: way.__name__
)


@each_way
async def test_confirmation_without_redis_creates_one_ride(village: Village, away: Way) -> None:
    passenger_id, newcomer_id = uuid4(), uuid4()
    token = await village.request_token(passenger_id)
    async with away(village.town):
        assert (await village.confirm(passenger_id, token)).status_code == 201
        again = await asyncio.gather(*(village.confirm(passenger_id, token) for _ in range(10)))
        assert {answer.status_code for answer in again} == {200}
        assert await village.rides_of(passenger_id) == [(await village.confirmation(token))["ride_id"]]
        new_token = await village.request_token(newcomer_id)
        assert (await village.confirm(newcomer_id, new_token)).status_code == 201


async def test_home_drivers_are_found_without_redis(village: Village) -> None:
    await village.add_driver(based=True, north_meters=OUTSIDE_METERS)
    async with redis_stopped(village.town):
        answer = await village.request(uuid4())
        assert answer.status_code == 201, answer.text
        assert answer.json()["ride"]["tier"] == "home"


async def test_wrong_tokens_are_limited_without_redis(village: Village) -> None:
    async with (
        village.with_settings(rate_limit_confirmation="2/hour") as guarded,
        redis_stopped(village.town),
    ):
        passenger_id = uuid4()
        guesses = [(await guarded.confirm(passenger_id, uuid4().hex * 2)).status_code for _ in range(3)]
        assert guesses == [404, 404, 429]
