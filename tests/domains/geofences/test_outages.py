"""With Redis away a community's rides are asked for and confirmed as ever."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

import pytest

from tests.domains.geofences.village import OUTSIDE_METERS, Village
from tests.domains.location.outages import flushed, frozen, stopped
from tests.domains.location.town import Town

Way = Callable[[Town], AbstractAsyncContextManager[None]]
each_way = pytest.mark.parametrize("away", [frozen, stopped, flushed], ids=lambda way: way.__name__)


@each_way
async def test_with_redis_away_a_confirmation_is_one_ride(village: Village, away: Way) -> None:
    passenger_id, newcomer_id = uuid4(), uuid4()
    token = await village.token(passenger_id)
    async with away(village.town):
        assert (await village.confirm(passenger_id, token)).status_code == 201
        again = await asyncio.gather(*(village.confirm(passenger_id, token) for _ in range(10)))
        assert {answer.status_code for answer in again} == {200}
        assert await village.rides_of(passenger_id) == [(await village.question(token))["ride_id"]]
        asked = await village.token(newcomer_id)
        assert (await village.confirm(newcomer_id, asked)).status_code == 201


async def test_with_redis_away_the_communitys_own_are_found(village: Village) -> None:
    await village.driver(based=True, north_meters=OUTSIDE_METERS)
    async with stopped(village.town):
        answer = await village.ask(uuid4())
        assert answer.status_code == 201, answer.text
        assert answer.json()["ride"]["tier"] == "home"


async def test_with_redis_away_guesses_are_counted_here(village: Village) -> None:
    async with village.under(rate_limit_confirmation="2/hour") as guarded, stopped(village.town):
        passenger_id = uuid4()
        guesses = [(await guarded.confirm(passenger_id, uuid4().hex * 2)).status_code for _ in range(3)]
        assert guesses == [404, 404, 429]
