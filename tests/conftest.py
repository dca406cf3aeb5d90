"""Fixtures: real servers on two stacks, a migrated database, a listening API, tokens."""

import asyncio
import os
import shutil
import socket
import tempfile

# Before anything imports prometheus_client, which decides on import where its figures live.
os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="catraca-metrics-")

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import APIRouter

from catraca.platform.auth import sign_token
from catraca.platform.database import Database
from catraca.platform.migrations import migrate
from catraca.roles.api import Api
from catraca.roles.parts import Parts, open_parts
from catraca.roles.runner import Life
from catraca.settings import Settings
from tests.rabbitmq import RabbitMq
from tests.servers import Stack, private_folder, start_debian, start_embedded, until

SECRET = "the tests' own secret, long enough to sign with"


@pytest.fixture(scope="session", params=["embedded", "servers"])
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    """Running servers. Everything that uses it runs twice: embedded, and Debian's servers."""
    folder = private_folder()
    stack, stop = await (start_embedded if request.param == "embedded" else start_debian)(folder)
    await migrate(stack.database_url)
    yield stack
    await stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def amqp_url() -> AsyncIterator[str]:
    """A RabbitMQ of its own, started for the first test that asks."""
    folder = private_folder()
    server = RabbitMq(folder / "rabbitmq")
    server.start()
    try:
        await until(server.answers)
        yield server.url
    finally:
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def settings(stack: Stack) -> Settings:
    return settings_for(stack)


def settings_for(stack: Stack) -> Settings:
    """Settings for a process of its own on this stack, with limits out of the way."""
    return Settings(
        port=free_port(),
        state_dir=stack.folder,
        database_url=stack.database_url,
        redis_url=stack.redis_url,
        secret=SECRET,
        rate_limit_principal="100000/minute",
        rate_limit_anonymous="100000/minute",
    )


@pytest.fixture(scope="session")
async def parts(settings: Settings) -> AsyncIterator[Parts]:
    async with open_parts(settings) as parts:
        yield parts


@pytest.fixture(scope="session")
def database(parts: Parts) -> Database:
    return parts.database


@asynccontextmanager
async def listening(parts: Parts, more_routers: Sequence[APIRouter] = ()) -> AsyncIterator[str]:
    """An API of this process on a real socket, until the block ends; answers its URL."""
    life = Life()
    running = asyncio.create_task(Api(parts, more_routers).run(life))
    url = f"http://127.0.0.1:{parts.settings.port}"

    async def ready() -> bool:
        if running.done():
            running.result()
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    await until(ready)
    yield url
    life.stopping.set()
    await running


@pytest.fixture(scope="session")
async def api_url(parts: Parts) -> AsyncIterator[str]:
    async with listening(parts) as url:
        yield url


@pytest.fixture(scope="session")
async def api(api_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api_url, headers={"accept-language": "en"}, timeout=30) as client:
        yield client


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def bearer(
    role: str | list[str] = "passenger", sub: UUID | None = None, **claims: timedelta
) -> dict[str, str]:
    """Headers of a caller with the given role; a new person each time unless `sub` says who."""
    roles = [role] if isinstance(role, str) else role
    lifetime = claims.get("lifetime", timedelta(hours=1))
    token = sign_token(SECRET, subject=sub or uuid4(), roles=roles, lifetime=lifetime)
    return {"authorization": f"Bearer {token}"}
