"""Demo data reach no real database: only the embedded one, behind a loopback address."""

import asyncio
from collections.abc import AsyncIterator
from signal import SIGTERM
from uuid import uuid4

import asyncpg
import pytest

from tests.journeys.instances import STOP_SECONDS, Instance, instance
from tests.servers import Stack, on_one_stack

pytestmark = pytest.mark.xdist_group("journeys")
DEMO_PEOPLE = 19


@pytest.fixture
async def here() -> AsyncIterator[Instance]:
    async with instance() as found:
        yield found


async def stopped(here: Instance) -> list[str]:
    """Stop `catraca up`; returns its lines about demo data."""
    assert here.process is not None
    here.process.send_signal(SIGTERM)
    async with asyncio.timeout(STOP_SECONDS):
        _, errors = await here.process.communicate()
    assert here.process.returncode == 0, errors.decode()
    return [line for line in errors.decode().splitlines() if "demo data" in line]


async def count_users(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval("SELECT count(*) FROM users")
    finally:
        await connection.close()


@on_one_stack
async def test_external_database_gets_no_demo_data(here: Instance, stack: Stack) -> None:
    url = await stack.new_database(f"real_{uuid4().hex}")
    here.settings = {"CATRACA_DATABASE_URL": url, "CATRACA_REDIS_URL": stack.redis_url}
    assert (await here.start())["demo_tokens"] == {}
    (line,) = await stopped(here)
    assert "CATRACA_DATABASE_URL is set" in line
    assert "CATRACA_ENVIRONMENT=development" in line
    assert await count_users(url) == 0


@on_one_stack
async def test_external_database_gets_demo_data_in_development(here: Instance, stack: Stack) -> None:
    url = await stack.new_database(f"tried_{uuid4().hex}")
    here.settings = {"CATRACA_DATABASE_URL": url, "CATRACA_REDIS_URL": stack.redis_url}
    here.settings["CATRACA_ENVIRONMENT"] = "development"
    assert (await here.start())["demo_tokens"].keys() == {"operator", "driver", "passenger"}
    assert await stopped(here) == []
    assert await count_users(url) == DEMO_PEOPLE


async def test_public_address_gets_no_demo_data(here: Instance) -> None:
    here.settings = {"CATRACA_HOST": "0.0.0.0"}
    assert (await here.start())["demo_tokens"] == {}
    # Another terminal, without the setting of the server.
    here.settings = {}
    code, _, errors = await here.output("demo", "--for", "1")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "the demo city is not in the database" in errors
    assert await here.query("SELECT count(*) FROM users") == 0
    (line,) = await stopped(here)
    assert "CATRACA_HOST is not a loopback address" in line
