"""Embedded servers start again with all committed data, after kills and with leftovers."""

import os
import shutil
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from catraca.platform.embedded import (
    EmbeddedPostgres,
    EmbeddedServerFailed,
    lock_state_dir,
)
from catraca.platform.embedded.leftovers import find_leftovers
from catraca.platform.embedded.postgres import _trace
from tests.platform.embedded.stage import (
    DRIVER,
    Stage,
    as_owner_of,
    ask_redis,
    needs_root,
    proc,
    rows,
    runs,
    write_row,
)
from tests.servers import freeze, until


async def test_committed_rows_survive_a_killed_postmaster(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = ((signal.SIGINT, 0.5), (signal.SIGQUIT, 0.5), (signal.SIGKILL, 10.0))
    monkeypatch.setattr(EmbeddedPostgres, "steps", brief)
    postgres = stage.postgres()
    await postgres.start()
    await write_row(postgres.url, "kept")
    connection = await asyncpg.connect(postgres.url)
    orphan = await connection.fetchval("SELECT pg_backend_pid()")
    # A stopped backend does not notice the loss and keeps the shared memory, which blocks a new server.
    freeze(orphan)
    os.kill(postgres.pid, signal.SIGKILL)
    await postgres.wait()
    assert runs(orphan)

    await postgres.start()
    assert not runs(orphan)
    assert await rows(postgres.url) == ["kept"]
    connection.terminate()


async def test_servers_end_with_a_killed_parent_and_keep_their_data(stage: Stage) -> None:
    parent, found = await stage.driver()
    await write_row(found["url"], "kept")
    parent.kill()
    await until(lambda: not runs(found["postgres"]) and not runs(found["redis"]), seconds=20)

    with lock_state_dir(stage.state):
        postgres, redis_server = stage.postgres(), stage.redis()
        await postgres.start()
        await redis_server.start()
        assert await rows(postgres.url) == ["kept"]


async def test_restart_right_after_everything_was_killed(stage: Stage) -> None:
    parent, found = await stage.driver()
    await write_row(found["url"], "kept")
    for pid in (parent.pid, found["postgres"], found["redis"]):
        os.kill(pid, signal.SIGKILL)
    await parent.wait()  # a killed process keeps its lock until it is next scheduled
    postgres, redis_server = stage.postgres(), stage.redis()
    await postgres.start()
    await redis_server.start()
    assert await rows(postgres.url) == ["kept"]


async def start_leftovers(stage: Stage) -> tuple[int, int, Path]:
    """Servers on the state folder that do not end with their parent."""
    postgres, redis_server = stage.postgres(), stage.redis()
    await postgres.start()
    await redis_server.start()
    await write_row(postgres.url, "kept")
    commands = [proc(one.pid, "cmdline").read_bytes().split(b"\0")[:-1] for one in (postgres, redis_server)]
    await redis_server.stop()
    await postgres.stop()
    data = stage.state / "postgres"
    with (stage.state / "log" / "postgres.log").open("a") as log:
        left = [
            await stage.run(
                *(os.fsdecode(word) for word in command), cwd="/", stderr=log, **as_owner_of(data)
            )
            for command in commands
        ]
    await until(lambda: len(find_leftovers(_trace(data))) > 4)
    await until((stage.state / "run" / "redis.sock").exists)
    return left[0].pid, left[1].pid, data


async def test_leftover_servers_are_ended_and_other_processes_not(stage: Stage) -> None:
    old_postgres, old_redis, data = await start_leftovers(stage)
    # A process in the folder that is no server.
    bystander = await stage.run("/bin/sleep", "60", cwd=data)

    postgres, redis_server = stage.postgres(), stage.redis()
    await postgres.start()
    await redis_server.start()
    assert not runs(old_postgres)
    assert not runs(old_redis)
    assert runs(bystander.pid)
    assert await rows(postgres.url) == ["kept"]
    assert any("an earlier run left" in message for message in stage.messages)


@needs_root
async def test_leftovers_are_found_without_access_to_proc_files(stage: Stage) -> None:
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is missing")
    old_postgres, old_redis, _ = await start_leftovers(stage)
    _, found = await stage.driver("setpriv", "--bounding-set=-sys_ptrace")
    assert not runs(old_postgres)
    assert not runs(old_redis)
    assert await rows(found["url"]) == ["kept"]


async def test_incomplete_data_folder_is_made_again(bare_stage: Stage) -> None:
    parent = await bare_stage.run(sys.executable, "-c", DRIVER, bare_stage.state)
    await until(lambda: list(bare_stage.state.glob("postgres.new-*/PG_VERSION")), seconds=20)
    parent.kill()
    await parent.wait()
    assert not (bare_stage.state / "postgres").exists()

    postgres = bare_stage.postgres()
    await postgres.start()
    await write_row(postgres.url, "kept")
    assert not list(bare_stage.state.glob("postgres.new-*"))


async def test_pid_file_of_another_process_does_not_stop_the_start(stage: Stage) -> None:
    postgres = stage.postgres()
    await postgres.start()
    await write_row(postgres.url, "kept")
    data = stage.state / "postgres"
    lines = (data / "postmaster.pid").read_text().splitlines()
    socket_lock = (stage.state / "run" / ".s.PGSQL.5432.lock").read_text().splitlines()
    await postgres.stop()
    stranger = await stage.run("/bin/sleep", "60", **as_owner_of(data))
    for path, content in (
        (data / "postmaster.pid", lines),
        (data.parent / "run/.s.PGSQL.5432.lock", socket_lock),
    ):
        path.write_text("\n".join([str(stranger.pid), *content[1:]]) + "\n")

    await postgres.start()
    assert await rows(postgres.url) == ["kept"]
    assert runs(stranger.pid)


async def test_redis_loads_a_truncated_file(bare_stage: Stage) -> None:
    redis_server = bare_stage.redis()
    await redis_server.start()
    await ask_redis(redis_server.url, "SET", "first", "kept")
    await ask_redis(redis_server.url, "SET", "second", "cut")
    await redis_server.stop()
    file = bare_stage.state / "redis" / "appendonly.aof"
    os.truncate(file, file.stat().st_size - 4)
    await redis_server.start()
    assert await ask_redis(redis_server.url, "GET", "first") == "kept"
    assert not list(bare_stage.state.glob("redis.broken-*"))


async def test_redis_moves_data_aside_that_it_cannot_load(bare_stage: Stage) -> None:
    redis_server = bare_stage.redis()
    await redis_server.start()
    await redis_server.stop()
    (bare_stage.state / "redis" / "appendonly.aof").write_bytes(b"*3\r\n$3\r\nSET\r\ngarbage" * 20)
    await redis_server.start()
    assert await ask_redis(redis_server.url, "PING")
    [aside] = bare_stage.state.glob("redis.broken-*")
    assert b"garbage" in (aside / "appendonly.aof").read_bytes()
    assert any(str(aside) in message for message in bare_stage.messages)


async def test_redis_keeps_data_that_did_not_cause_the_failure(
    bare_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_server = bare_stage.redis()
    await redis_server.start()
    await ask_redis(redis_server.url, "SET", "key", "kept")
    await redis_server.stop()
    with monkeypatch.context() as patch:
        patch.setitem(
            sys.modules["catraca.platform.embedded.redis_server"].SETTINGS, "appendfsync", "nonsense"
        )
        with pytest.raises(EmbeddedServerFailed) as raised:
            await redis_server.start()
    assert any("nonsense" in line for line in raised.value.log_tail)
    await redis_server.start()
    assert await ask_redis(redis_server.url, "GET", "key") == "kept"
