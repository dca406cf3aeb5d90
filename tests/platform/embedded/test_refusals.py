"""Refused starts of embedded servers: the error names the remedy."""

import os

import pytest

from catraca.platform.embedded import (
    DataFolderForeign,
    EmbeddedServerFailed,
    ProgramsMissing,
    StateFolderInUse,
    StateFolderUnusable,
    children,
    lock_state_dir,
    programs,
    server,
)
from catraca.platform.embedded.leftovers import find_leftovers
from catraca.platform.embedded.postgres import _trace
from tests.platform.embedded.stage import Stage, proc, runs, write_row


async def test_second_instance_is_refused_until_the_first_ends(stage: Stage) -> None:
    parent, _ = await stage.driver()
    with pytest.raises(StateFolderInUse) as raised:
        lock_state_dir(stage.state)
    assert raised.value.pid == parent.pid
    with pytest.raises(StateFolderInUse):
        await stage.postgres().start()
    parent.kill()
    await parent.wait()
    lock_state_dir(stage.state).release()


async def test_servers_do_not_inherit_the_lock(stage: Stage) -> None:
    lock = lock_state_dir(stage.state)
    postgres = stage.postgres()
    await postgres.start()
    held = {os.readlink(link) for link in proc(postgres.pid, "fd").iterdir()}
    assert str(stage.state / "lock") not in held
    assert str(stage.state / "postgres") not in held
    lock.release()
    lock_state_dir(stage.state).release()


async def test_copied_state_folder_does_not_end_the_first_server(stage: Stage) -> None:
    first = stage.postgres()
    await first.start()
    copy = lock_state_dir(stage.place / "copy")
    (copy.path / "postgres").symlink_to(stage.state / "postgres")
    with copy, pytest.raises(StateFolderInUse):
        await stage.postgres(copy.path).start()
    await write_row(first.url, "served")


async def test_data_of_another_version_or_kind_are_not_changed(bare_stage: Stage) -> None:
    data = bare_stage.state / "postgres"
    data.mkdir(parents=True)
    bare_stage.state.chmod(0o755)
    data.chmod(0o755)
    (data / "notes.txt").write_text("mine")
    with pytest.raises(DataFolderForeign, match="no PostgreSQL data"):
        await bare_stage.postgres().start()
    (data / "PG_VERSION").write_text("17\n")
    with pytest.raises(DataFolderForeign, match=r"17.*CATRACA_DATABASE_URL"):
        await bare_stage.postgres().start()
    assert (data / "notes.txt").read_text() == "mine"


async def test_link_to_missing_data_is_not_an_empty_start(bare_stage: Stage) -> None:
    bare_stage.state.mkdir()
    (bare_stage.state / "postgres").symlink_to(bare_stage.place / "unmounted" / "data")
    with pytest.raises(StateFolderUnusable, match="unmounted"):
        await bare_stage.postgres().start()


async def test_failed_start_shows_the_log_and_leaves_no_process(stage: Stage) -> None:
    postgres = stage.postgres()
    await postgres.start()
    await postgres.stop()
    control = stage.state / "postgres" / "global" / "pg_control"
    good = control.read_bytes()
    control.write_bytes(bytes(len(good)))
    with pytest.raises(EmbeddedServerFailed) as raised:
        await postgres.start()
    assert any("FATAL" in line or "PANIC" in line for line in raised.value.log_tail)
    assert len(raised.value.log_tail) <= 20
    assert not find_leftovers(_trace(stage.state / "postgres"))
    control.write_bytes(good)
    await postgres.start()


async def test_start_fails_at_its_deadline(bare_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres = bare_stage.postgres()
    with monkeypatch.context() as patch:
        patch.setattr(server, "START_SECONDS", 0.1)
        with pytest.raises(EmbeddedServerFailed, match="did not become ready"):
            await postgres.start()
    assert not runs(postgres.pid)
    await postgres.start()
    await write_row(postgres.url, "kept")


async def test_error_for_missing_programs_names_the_remedy(
    bare_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ProgramsMissing, match="CATRACA_DATABASE_URL"):
        await bare_stage.postgres().start()
    with pytest.raises(ProgramsMissing, match="CATRACA_REDIS_URL"):
        await bare_stage.redis().start()


async def test_large_log_is_rotated(bare_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    redis_server = bare_stage.redis()
    await redis_server.start()
    await redis_server.stop()
    log = bare_stage.state / "log" / "redis.log"
    first = log.read_text()
    monkeypatch.setattr(children, "LOG_BYTES", len(first) - 1)
    await redis_server.start()
    await redis_server.stop()
    assert (bare_stage.state / "log" / "redis.log.1").read_text() == first
    assert first not in log.read_text()
