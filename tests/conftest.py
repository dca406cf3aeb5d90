"""Fixtures: real servers on two stacks, a migrated database, a listening API, tokens."""

import asyncio
import gc
import os
import shutil
import tempfile

# Before anything imports prometheus_client, which decides on import where its figures live.
os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="catraca-metrics-")

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
import structlog
from argon2 import PasswordHasher
from fastapi import APIRouter
from hypothesis import settings as hypothesis_settings

from catraca.cli import OBJECTS_BETWEEN_COLLECTIONS
from catraca.platform.auth import sign_token
from catraca.platform.database import Database
from catraca.platform.database.migrations import migrate
from catraca.platform.http import health
from catraca.platform.passwords import Passwords
from catraca.roles.api import Api, domain_parts
from catraca.roles.listener import open_listener
from catraca.roles.parts import Parts, open_parts
from catraca.roles.runner import Life
from catraca.settings import Settings, read_settings
from tests.rabbitmq import RabbitMq
from tests.scratch import folder_in_memory
from tests.servers import (
    Stack,
    StartStack,
    free_port,
    private_folder,
    start_debian,
    start_embedded,
    until,
)
from tests.support.loop import TestLoop

# One plain line for each event: structlog's own output is for people, and slow.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)
# Without deadlines: a machine may be busy. `make test` runs a part of the examples, `make test-all` all.
hypothesis_settings.register_profile("part", deadline=None, max_examples=30)
hypothesis_settings.register_profile("all", deadline=None, max_examples=100)

SECRET = "the tests' own secret, long enough to sign with"
# What is promised of passwords holds whatever a hash costs; what it must cost is asked in test_passwords.py.
QUICK_HASHER = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


# Tests of these folders run on both stacks in `make test` too; the others do in `make test-all` only.
BOTH_STACKS = ("platform", "journeys", "roles")
BOTH_STACKS_FILES = ("test_constraints.py", "test_invariants.py", "test_migration.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="the whole suite: `long` tests, and both stacks")


def pytest_collection_finish() -> None:
    """Exclude what collection made from garbage collection: it stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, type[TestLoop]]:
    """Run tests on the event loop that Catraca itself runs on."""
    return {"uvloop": TestLoop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the stacks of each test that uses them, unless the test names its own."""
    marked = any("stack" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "stack" in metafunc.fixturenames and not marked:
        path = metafunc.definition.path.relative_to(Path(__file__).parent)
        both = path.parts[0] in BOTH_STACKS or path.name in BOTH_STACKS_FILES
        names = ["embedded", "servers"] if both or metafunc.config.getoption("--all") else ["servers"]
        metafunc.parametrize("stack", names, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the process; files are in memory if possible, in a folder that xdist workers inherit."""
    hypothesis_settings.load_profile("all" if config.getoption("--all") else "part")
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    if "TMPDIR" in os.environ or (folder := folder_in_memory()) is None:
        return
    # Each test's own folder stays on the disk: pytest keeps the last ones, and its names for them are long.
    os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.gettempdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop `long` tests unless all are asked for, and keep each `xdist_group` on one worker.

    pytest-xdist 3.8 reads the group at the end of a test's id, which pytest 9.2 and later do not
    write there (issue 1386 of pytest-xdist): without this, groups would be split silently.
    """
    if not config.getoption("--all"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]
    for item in items:
        if "stack" in item.fixturenames and not item.get_closest_marker("asyncio"):  # type: ignore[attr-defined]
            raise pytest.UsageError(f"{item.nodeid} uses servers: make it async, or all of them start again")
        group = item.get_closest_marker("xdist_group")
        if group is not None and "PYTEST_XDIST_WORKER" in os.environ:
            item._id = item.id.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domain_parts, "Passwords", lambda: Passwords(QUICK_HASHER))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_clients() -> Iterator[None]:
    """Share a TLS context among all clients: loading the certificate authorities for each one is slow."""
    transports = httpx._transports.default
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "create_ssl_context", cache(transports.create_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def _new_figures() -> Iterator[None]:
    """Compute /metrics for each request: tests compare the figures before and after a change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "METRICS_KEPT_SECONDS", 0.0)
        yield


@asynccontextmanager
async def migrated(start: StartStack) -> AsyncIterator[Stack]:
    folder = private_folder()
    stack, stop = await start(folder)
    await migrate(stack.database_url)
    yield stack
    await stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def embedded_stack() -> AsyncIterator[Stack]:
    async with migrated(start_embedded) as stack:
        yield stack


@pytest.fixture(scope="session")
async def servers_stack() -> AsyncIterator[Stack]:
    async with migrated(start_debian) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Stack:
    """Running servers: embedded, or Debian's. `pytest_generate_tests` decides which tests run on which.

    Once started, both run to the end, because the order of tests alternates between them.
    """
    return request.getfixturevalue(f"{request.param}_stack")


@pytest.fixture(scope="session")
async def rabbitmq() -> AsyncIterator[RabbitMq]:
    """A private RabbitMQ, started for the first test that uses it. A test that kills it starts it again."""
    folder = private_folder()
    server = RabbitMq(folder / "rabbitmq")
    server.start()
    try:
        await until(server.answers)
        yield server
    finally:
        await server.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def amqp_url(rabbitmq: RabbitMq) -> str:
    return rabbitmq.url


@pytest.fixture(scope="session")
def settings(stack: Stack) -> Settings:
    return settings_for(stack)


def settings_for(stack: Stack) -> Settings:
    """Settings for a process of its own on this stack, with limits out of the way."""
    return read_settings(
        port=free_port(),
        state_dir=stack.folder,
        database_url=stack.database_url,
        redis_url=stack.redis_url,
        redis_timeout=2,
        secret=SECRET,
        rate_limit_principal="100000/minute",
        rate_limit_anonymous="100000/minute",
        rate_limit_sign_up_address="100000/minute",
        rate_limit_sign_up_email="100000/minute",
        rate_limit_email_change="100000/minute",
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
    url = f"http://127.0.0.1:{parts.settings.process.port}"
    with open_listener("127.0.0.1", parts.settings.process.port) as listener:
        running = asyncio.create_task(Api(replace(parts, listener=listener), more_routers).run(life))

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


def bearer(
    role: str | list[str] = "passenger", sub: UUID | None = None, **claims: timedelta
) -> dict[str, str]:
    """Headers of a caller with the given role; a new person each time unless `sub` says who."""
    roles = [role] if isinstance(role, str) else role
    lifetime = claims.get("lifetime", timedelta(hours=1))
    token = sign_token(SECRET, subject=sub or uuid4(), roles=roles, lifetime=lifetime)
    return {"authorization": f"Bearer {token}"}
