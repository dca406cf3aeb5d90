"""Embedded servers accept clients, are durable, and stop within a time limit."""

import asyncio
import os
import signal
import stat
import tempfile
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from catraca.platform.embedded import (
    EmbeddedRedis,
    folders,
    postgres,
    programs,
)
from tests.platform.embedded.stage import (
    Stage,
    ask_redis,
    rows,
    runs,
    write_row,
)
from tests.servers import freeze


async def test_servers_of_a_new_folder_accept_clients(bare_stage: Stage) -> None:
    postgres, redis_server = bare_stage.postgres(), bare_stage.redis()
    await asyncio.gather(postgres.start(), redis_server.start())

    await write_row(postgres.url, "asyncpg")
    engine = create_async_engine(postgres.url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        assert (await connection.execute(text("SELECT value FROM kept"))).scalar() == "asyncpg"
    await engine.dispose()

    psql = programs.locate_postgres().root / programs.locate_postgres().bin / "psql"
    shown = await bare_stage.run(psql, "-XAtc", "SELECT value FROM kept", postgres.url)
    assert (await shown.communicate())[0] == b"asyncpg\n"

    await ask_redis(redis_server.url, "SET", "key", "redis-py")
    assert await ask_redis(redis_server.url, "GET", "key") == "redis-py"


async def test_port_in_the_environment_is_ignored(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "1")
    postgres = stage.postgres()
    await postgres.start()
    await write_row(postgres.url, "found")


async def test_durability_is_on_despite_edited_files(stage: Stage) -> None:
    postgres = stage.postgres()
    await postgres.start()
    connection = await asyncpg.connect(postgres.url)
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        await connection.execute(f"ALTER SYSTEM SET {name} = off")
    await connection.close()
    await postgres.stop()

    await postgres.start()
    connection = await asyncpg.connect(postgres.url)
    shown = {
        name: await connection.fetchval(f"SHOW {name}")
        for name in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums", "listen_addresses")
    }
    await connection.close()
    assert shown == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
    }


@pytest.mark.parametrize(
    ("memory_mebibytes", "expected"), [(256, "128MB"), (1024, "256MB"), (4096, "1024MB"), (65536, "1024MB")]
)
def test_buffers_are_a_bounded_share_of_memory(memory_mebibytes: int, expected: str) -> None:
    assert postgres.shared_buffers(memory_mebibytes * 2**20) == expected


async def test_memory_limit_of_a_container_counts(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{800 * 2**20}\n")
    unlimited = tmp_path / "unlimited"
    unlimited.write_text("max\n")
    monkeypatch.setattr(postgres, "MEMORY_LIMITS", (tmp_path / "missing", unlimited, limit))
    server = stage.postgres()
    await server.start()
    connection = await asyncpg.connect(server.url)
    shown = await connection.fetchval("SHOW shared_buffers")
    await connection.close()
    assert shown == "200MB"


async def test_log_has_no_personal_data(stage: Stage) -> None:
    postgres = stage.postgres()
    await postgres.start()
    connection = await asyncpg.connect(postgres.url)
    await connection.execute("CREATE TABLE people (email text PRIMARY KEY)")
    insert = "INSERT INTO people VALUES ($1)"
    await connection.execute(insert, "maria@example.org")
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(insert, "maria@example.org")
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.execute("SELECT 'maria@example.org' FROM nowhere")
    with pytest.raises(asyncpg.InvalidTextRepresentationError):
        await connection.execute("SELECT 'maria@example.org'::text::uuid")
    await connection.close()
    await postgres.stop()
    log = (stage.state / "log" / "postgres.log").read_text()
    assert "ready to accept connections" in log
    assert "maria" not in log


async def test_two_state_folders_run_side_by_side(bare_stage: Stage) -> None:
    one, other = (
        bare_stage.postgres(bare_stage.place / "one"),
        bare_stage.postgres(bare_stage.place / "other"),
    )
    redis_one, redis_other = (
        bare_stage.redis(bare_stage.place / "one"),
        bare_stage.redis(bare_stage.place / "other"),
    )
    await asyncio.gather(one.start(), other.start(), redis_one.start(), redis_other.start())
    await asyncio.gather(write_row(one.url, "one"), write_row(other.url, "other"))
    await ask_redis(redis_one.url, "SET", "key", "one")
    assert await rows(one.url) == ["one"]
    assert await rows(other.url) == ["other"]
    assert await ask_redis(redis_other.url, "GET", "key") is None


@pytest.mark.parametrize("name", ["long-" * 25, "ação, comma: and space"])
async def test_sockets_of_unsuitable_paths_are_elsewhere(
    bare_stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(bare_stage.place))
    state = bare_stage.place / name
    taken = bare_stage.place / f"catraca-{folders._digest(state)}-0"
    if os.geteuid() == 0:
        taken.mkdir()
        os.chown(taken, 1, 1)
    else:
        taken.symlink_to(bare_stage.place)

    postgres, redis_server = bare_stage.postgres(state), bare_stage.redis(state)
    await postgres.start()
    await redis_server.start()
    await write_row(postgres.url, "kept")
    assert await ask_redis(redis_server.url, "PING")
    assert not list(taken.glob(".s.PGSQL*")), "a folder that a stranger made was used"
    run = taken.with_name(taken.name[:-1] + "1")
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert run.owner() == (state / "postgres").owner()


async def test_servers_have_their_own_sessions(stage: Stage) -> None:
    postgres, redis_server = stage.postgres(), stage.redis()
    await postgres.start()
    await redis_server.start()
    assert os.getsid(postgres.pid) == postgres.pid
    assert os.getsid(redis_server.pid) == redis_server.pid


async def test_data_survive_a_stop_and_a_start(stage: Stage) -> None:
    postgres, redis_server = stage.postgres(), stage.redis()
    await postgres.start()
    await redis_server.start()
    await write_row(postgres.url, "kept")
    await ask_redis(redis_server.url, "SET", "key", "kept")
    first = postgres.pid
    await redis_server.stop()
    await postgres.stop()
    assert not runs(first)

    await postgres.start()
    await redis_server.start()
    assert await rows(postgres.url) == ["kept"]
    assert await ask_redis(redis_server.url, "GET", "key") == "kept"
    log = (stage.state / "log" / "postgres.log").read_text()
    assert "was not properly shut down" not in log


async def test_stop_is_safe_before_start_twice_and_after_a_takeover(stage: Stage) -> None:
    first, second = stage.postgres(), stage.postgres()
    await first.stop()
    await first.start()
    await first.stop()
    await first.stop()
    await second.start()
    await first.stop()
    await write_row(second.url, "served")


async def test_server_that_ignores_its_signal_is_killed(
    bare_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedRedis, "steps", ((signal.SIGTERM, 0.2), (signal.SIGKILL, 5.0)))
    redis_server = bare_stage.redis()
    await redis_server.start()
    freeze(redis_server.pid)
    await redis_server.stop()
    assert not runs(redis_server.pid)


async def test_wait_returns_the_exit_code_and_start_works_again(bare_stage: Stage) -> None:
    redis_server = bare_stage.redis()
    await redis_server.start()
    await ask_redis(redis_server.url, "SET", "key", "kept")
    waiting = asyncio.create_task(redis_server.wait())
    os.kill(redis_server.pid, signal.SIGKILL)
    assert await asyncio.wait_for(waiting, 10) == -signal.SIGKILL
    await redis_server.start()
    assert await ask_redis(redis_server.url, "GET", "key") == "kept"
