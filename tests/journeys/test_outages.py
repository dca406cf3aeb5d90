"""Servers that go away under load: answers are right or 503, none hangs, all recovers alone."""

import os
from collections.abc import AsyncIterator
from signal import SIGCONT, SIGKILL

import httpx
import pytest

from tests.journeys.instances import Instance, descendants, instance, is_alive
from tests.journeys.outages import Load, kill_postgres_under_load, under_load
from tests.servers import freeze, until

pytestmark = pytest.mark.xdist_group("journeys")


@pytest.fixture(scope="module")
async def here() -> AsyncIterator[Instance]:
    async with instance() as found:
        await found.start("--workers", "2")
        yield found
        assert await found.stop() == 0


async def test_killed_postgres_costs_only_503s_and_comes_back(here: Instance) -> None:
    await kill_postgres_under_load(here)


async def test_requests_fail_fast_while_postgres_is_frozen(here: Instance) -> None:
    async def trouble(load: Load) -> None:
        server = here.postgres()
        frozen = [server, *descendants(server)]
        freeze(*frozen)
        await load.more(503)
        for pid in frozen:
            os.kill(pid, SIGCONT)

    await under_load(here, trouble)


async def test_postgres_killed_while_it_hangs_comes_back(here: Instance) -> None:
    async def trouble(load: Load) -> None:
        server = here.postgres()
        frozen = [server, *descendants(server)]
        freeze(*frozen)
        await load.more(503)
        os.kill(server, SIGKILL)

    await under_load(here, trouble)


async def test_only_readyz_shows_that_redis_is_down(here: Instance) -> None:
    async def redis_is(state: str) -> bool:
        async with httpx.AsyncClient(base_url=here.url) as client:
            answer = await client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["status"] == "ready"
        return answer.json()["parts"]["redis"] == state

    async def trouble(load: Load) -> None:
        server = here.redis()
        freeze(server)
        await until(lambda: redis_is("down"))
        await load.more(200)
        os.kill(server, SIGCONT)
        await until(lambda: redis_is("up"))
        os.kill(server, SIGKILL)
        await until(lambda: not is_alive(server))
        await load.more(200)
        await until(lambda: redis_is("up"))
        assert set(load.answers) == {200}

    await under_load(here, trouble)
