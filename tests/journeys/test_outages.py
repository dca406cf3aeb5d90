"""Servers that go away under load: answers are right or 503, none hangs, all recovers alone."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from signal import SIGCONT, SIGKILL, SIGSTOP
from uuid import UUID, uuid4

import httpx
import pytest

from tests.journeys.instances import Instance, descendants, instance, is_alive
from tests.servers import until

pytestmark = pytest.mark.xdist_group("journeys")

CALLERS = 6
PAUSE_SECONDS = 0.02
# What the API allows itself for one answer is 15 s; nobody may wait much longer.
ANSWER_SECONDS = 20


@pytest.fixture(scope="module")
async def here() -> AsyncIterator[Instance]:
    async with instance() as found:
        await found.start("--workers", "2")
        yield found
        assert await found.stop() == 0


@dataclass
class Load:
    """Callers who rename themselves and read themselves back, with a ledger of what was acknowledged."""

    here: Instance
    answers: Counter[int] = field(default_factory=Counter)
    ledger: dict[UUID, str] = field(default_factory=dict)
    over: bool = False

    async def call_until_over(self, sub: UUID) -> None:
        async with self.here.client(sub) as client:
            number = 0
            while not self.over:
                number += 1
                await self._rename(client, sub, f"name {number}")
                await self._read(client, sub)

    async def _rename(self, client: httpx.AsyncClient, sub: UUID, name: str) -> None:
        """Repeat with one key until it is acknowledged, as a careful client does."""
        key = {"idempotency-key": str(uuid4())}
        while True:
            answer = await self._ask(lambda: client.patch("/v1/me", json={"name": name}, headers=key))
            if answer.status_code == 200:
                assert answer.json()["name"] == name
                self.ledger[sub] = name
                return

    async def _read(self, client: httpx.AsyncClient, sub: UUID) -> None:
        answer = await self._ask(lambda: client.get("/v1/me"))
        if answer.status_code == 200:
            assert answer.json()["name"] == self.ledger[sub]

    async def _ask(self, ask: Callable[[], "asyncio.Future[httpx.Response]"]) -> httpx.Response:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await ask()
        self.answers[answer.status_code] += 1
        assert answer.status_code in (200, 503), f"{answer.text}\n{self.here.complaints()}"
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["content-type"] == "application/problem+json"
        await asyncio.sleep(PAUSE_SECONDS)
        return answer

    async def more(self, status: int) -> None:
        """Wait for further answers of this kind."""
        wanted = self.answers[status] + CALLERS
        await until(lambda: self.answers[status] >= wanted)


async def under_load(here: Instance, trouble: Callable[[Load], "asyncio.Future[None]"]) -> None:
    load = Load(here)
    async with asyncio.TaskGroup() as callers:
        for _ in range(CALLERS):
            callers.create_task(load.call_until_over(uuid4()))
        await load.more(200)
        await trouble(load)
        await load.more(200)
        load.over = True
    for sub, name in load.ledger.items():
        assert await here.read_name(sub) == name


async def test_postgres_killed_under_load_costs_only_503s_and_comes_back(here: Instance) -> None:
    async def trouble(load: Load) -> None:
        for _ in range(2):
            victim = here.postgres()
            os.kill(victim, SIGKILL)
            await until(lambda victim=victim: not is_alive(victim))
            await load.more(503)
            await load.more(200)

    await under_load(here, trouble)


async def test_postgres_stopped_under_load_hangs_nobody_and_comes_back(here: Instance) -> None:
    async def trouble(load: Load) -> None:
        server = here.postgres()
        frozen = [server, *descendants(server)]
        for pid in frozen:
            os.kill(pid, SIGSTOP)
        await load.more(503)
        for pid in frozen:
            os.kill(pid, SIGCONT)

    await under_load(here, trouble)


async def test_postgres_killed_while_it_hangs_comes_back(here: Instance) -> None:
    async def trouble(load: Load) -> None:
        server = here.postgres()
        frozen = [server, *descendants(server)]
        for pid in frozen:
            os.kill(pid, SIGSTOP)
        await load.more(503)
        os.kill(server, SIGKILL)

    await under_load(here, trouble)


async def test_redis_away_makes_no_difference_but_in_readyz(here: Instance) -> None:
    async def redis_is(state: str) -> bool:
        async with httpx.AsyncClient(base_url=here.url) as client:
            answer = await client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["status"] == "ready"
        return answer.json()["parts"]["redis"] == state

    async def trouble(load: Load) -> None:
        server = here.redis()
        os.kill(server, SIGSTOP)
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
