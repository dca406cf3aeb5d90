"""Finding 2: one passenger's series took all database connections, within the rate limit."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import APIRouter
from prometheus_client import REGISTRY

from catraca.platform.database import Database
from catraca.platform.http.caller import Caller
from catraca.roles.parts import Parts, open_parts
from catraca.settings import Settings
from tests.conftest import bearer, free_port, listening
from tests.domains.scheduling.clinic import BASE, Clinic, open_clinic
from tests.servers import until

CONNECTIONS = 8
AT_ONCE = 60
DATES = 52
# With these connections.
PERSON_AT_ONCE = 4

router = APIRouter()


@router.get("/caller")
async def read_caller(caller: Caller) -> str:
    """Authenticates, and needs no other connection."""
    return str(caller.id)


@dataclass(frozen=True)
class Busy:
    """An API with few connections, and a clinic whose agendas are locked."""

    clinic: Clinic
    api: httpx.AsyncClient


@asynccontextmanager
async def api_of(settings: Settings, **changed: object) -> AsyncIterator[tuple[httpx.AsyncClient, Parts]]:
    # Series as long as in the finding: a shorter limit would refuse them before any work.
    allowed = {"max_upcoming_in_series": DATES, "max_upcoming_appointments": DATES}
    own = settings.changed(port=free_port(), database_connections=CONNECTIONS, **allowed, **changed)
    limits = httpx.Limits(max_connections=200)
    async with (
        open_parts(own) as parts,
        listening(parts, [router]) as url,
        httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client,
    ):
        yield client, parts


@pytest.fixture
async def busy(settings: Settings, database: Database) -> AsyncIterator[Busy]:
    async with api_of(settings) as (api, parts):
        clinic = await open_clinic(api, parts)
        async with database.transaction() as db:
            await db.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # for a slow machine
            await db.execute("SELECT FROM subjects WHERE id = $1 FOR UPDATE", clinic.worker_id)
            yield Busy(clinic, api)


def off_the_grid(clinic: Clinic, **more: Any) -> dict[str, Any]:
    """A series whose dates all fail."""
    return clinic.wish(clinic.at("09:07"), worker_id=None, every="day", count=DATES, **more)


async def post_series(api: httpx.AsyncClient, clinic: Clinic, person: UUID) -> httpx.Response:
    return await api.post(f"{BASE}/series", json=off_the_grid(clinic), headers=bearer("passenger", person))


@pytest.mark.parametrize("people", [1, AT_ONCE], ids=["one person", "many people"])
async def test_sixty_series_leave_connections_for_others(busy: Busy, people: int) -> None:
    crowd, before = [uuid4() for _ in range(people)], waits()
    async with asyncio.TaskGroup() as group:
        sent = [
            group.create_task(post_series(busy.api, busy.clinic, crowd[number % people]))
            for number in range(AT_ONCE)
        ]
        # More than there are connections wait, in the line of the person or of expensive requests.
        await until(lambda: waits() - before > CONNECTIONS)
        assert (await busy.api.get("/readyz")).status_code == 200
        me = await busy.api.get("/v1/me", headers=bearer("passenger"))
        assert me.status_code == 200, me.text
        for one in sent:
            one.cancel()


def waits() -> float:
    """Requests that had to wait for a place, or were refused one."""
    return sum(
        REGISTRY.get_sample_value("catraca_http_waits_total", {"line": line, "outcome": outcome}) or 0.0
        for line in ("person", "expensive")
        for outcome in ("waited", "refused")
    )


async def test_readiness_and_tokens_have_their_own_connections(settings: Settings) -> None:
    async with api_of(settings) as (api, parts), AsyncExitStack() as used:
        for _ in range(CONNECTIONS):
            await used.enter_async_context(parts.database.connection())
        assert (await api.get("/readyz")).status_code == 200
        person = uuid4()  # a new account is inserted
        answer = await api.get("/caller", headers=bearer("passenger", person))
        assert (answer.status_code, answer.json()) == (200, str(person))


async def test_series_count_as_many_requests(settings: Settings) -> None:
    async with api_of(settings, rate_limit_principal="1200/day") as (api, parts):
        clinic, person = await open_clinic(api, parts), uuid4()
        answers = [await post_series(api, clinic, person) for _ in range(26)]
        counts = Counter(answer.status_code for answer in answers)
        assert counts == {409: 1200 // DATES, 429: 3}
        assert answers[-1].json()["code"] == "too_many_requests"
        assert int(answers[-1].headers["retry-after"]) > 0


async def test_one_person_runs_few_requests_at_once(settings: Settings) -> None:
    started, finish = Counter[str](), asyncio.Event()
    slow = APIRouter()

    @slow.get("/slow")
    async def wait(caller: Caller) -> None:
        started[str(caller.id)] += 1
        await finish.wait()

    own = settings.changed(port=free_port(), database_connections=CONNECTIONS)
    limits = httpx.Limits(max_connections=200)
    async with (
        open_parts(own) as parts,
        listening(parts, [slow]) as url,
        httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as api,
        asyncio.TaskGroup() as group,
    ):
        person, waiting = bearer("passenger"), 50
        sent = [
            group.create_task(api.get("/slow", headers=person)) for _ in range(PERSON_AT_ONCE + waiting + 3)
        ]
        refused = await next(asyncio.as_completed(sent))
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many_at_once"
        assert refused.headers["retry-after"] == "1"
        assert max(started.values()) == PERSON_AT_ONCE
        assert (await api.get("/v1/me", headers=bearer("passenger"))).status_code == 200
        finish.set()
        statuses = Counter([(await one).status_code for one in sent])
        assert statuses == {200: PERSON_AT_ONCE + waiting, 429: 3}
