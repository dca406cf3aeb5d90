"""A round in which PostgreSQL fails under load, for `make test` and `make prove`."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from signal import SIGKILL
from uuid import UUID, uuid4

import httpx

from tests.journeys.instances import Instance, is_alive
from tests.servers import until

CALLERS = 6
PAUSE_SECONDS = 0.02
# The API's own limit for an answer is 15 s.
ANSWER_SECONDS = 20


@dataclass
class Load:
    """Callers that change and read their names, with a ledger of acknowledged changes."""

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


async def kill_postgres_under_load(here: Instance) -> None:
    """Kill PostgreSQL twice: every answer is right or 503, and acknowledged changes are not lost."""

    async def trouble(load: Load) -> None:
        for _ in range(2):
            victim = here.postgres()
            os.kill(victim, SIGKILL)
            await until(lambda victim=victim: not is_alive(victim))
            await load.more(503)
            await load.more(200)

    await under_load(here, trouble)
