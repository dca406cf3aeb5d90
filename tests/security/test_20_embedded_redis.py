"""Finding 20: the embedded Redis is of an old branch, so only Catraca may reach it."""

import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from catraca.platform.embedded import EmbeddedRedis
from tests.platform.embedded.stage import ask_redis
from tests.servers import private_folder


@pytest.fixture
async def redis() -> AsyncIterator[EmbeddedRedis]:
    folder = private_folder()
    server = EmbeddedRedis(folder / "state")
    await server.start()
    yield server
    await server.stop()
    shutil.rmtree(folder)


def modes(socket: Path) -> list[int]:
    """The modes of the socket and of its folder."""
    return [stat.S_IMODE(path.stat().st_mode) for path in (socket, socket.parent)]


async def test_embedded_redis_has_no_port(redis: EmbeddedRedis) -> None:
    assert (await ask_redis(redis.url, "INFO", "server"))["tcp_port"] == 0
    assert await ask_redis(redis.url, "CONFIG", "GET", "port") == {"port": "0"}


async def test_embedded_redis_socket_is_closed_to_other_users(redis: EmbeddedRedis) -> None:
    assert modes(Path(redis.url.removeprefix("unix://").partition("?")[0])) == [0o700, 0o700]
