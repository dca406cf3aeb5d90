"""`catraca up`: from an empty folder to a served request and back, and what may stand in its way."""

import asyncio
import os
import pwd
import shutil
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from typing import Any

import asyncpg
import httpx
import pytest

import catraca
from catraca.platform.database import migrations
from catraca.platform.database.migrations import known_revisions, migrate
from catraca.platform.embedded import EmbeddedPostgres
from tests.journeys.instances import Instance, instance, is_alive, is_listening
from tests.journeys.interpreters import interpreter_for
from tests.servers import as_account, until

# One after another: each starts whole sets of servers.
pytestmark = pytest.mark.xdist_group("journeys")


@pytest.fixture
async def here() -> AsyncIterator[Instance]:
    """A place where nothing runs yet."""
    async with instance() as found:
        yield found


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Instance]:
    """A Catraca with two workers, for tests that leave it running."""
    async with instance() as found:
        await found.start("--workers", "2")
        yield found
        assert await found.stop() == 0


async def test_a_fresh_folder_serves_stops_and_keeps_its_data(here: Instance) -> None:
    parent = here.folder.stat()
    found = await here.start()
    assert found["url"] == here.url
    async with httpx.AsyncClient(base_url=here.url) as stranger:
        assert (await stranger.get("/readyz")).json() == {
            "status": "ready",
            "parts": {"database": "up", "redis": "up", "bus": "up"},
        }
        for language, words in (("en", "This needs a token"), ("pt-BR", "É preciso um token")):
            answer = await stranger.get("/v1/me", headers={"accept-language": language})
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
            assert words in answer.json()["detail"]
    sub = await here.write_name("Marlene")
    family = here.family()

    assert await here.stop(SIGTERM) == 0
    assert not is_listening(here.port)
    assert not [pid for pid in family if is_alive(pid)]
    assert "FATAL" not in (here.state / "log/postgres.log").read_text(), (
        "the workers had left before it stopped"
    )

    await here.start()
    assert await here.read_name(sub) == "Marlene"
    assert await here.stop(SIGINT) == 0
    now = here.folder.stat()
    assert (now.st_mode, now.st_uid) == (parent.st_mode, parent.st_uid), "a permission above changed"


async def test_committed_means_written_down(running: Instance) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await running.query(f"SHOW {setting}") == "on"


@pytest.mark.long
async def test_two_instances_run_side_by_side(here: Instance) -> None:
    async with instance() as there:
        await asyncio.gather(here.start(), there.start())
        sub = await here.write_name("Dora")
        assert await here.read_name(sub) == "Dora"
        assert await there.read_name(sub) is None
        assert await there.stop() == 0
        assert await here.read_name(sub) == "Dora"
        assert await here.stop() == 0


async def test_several_workers_share_the_port_and_the_figures(running: Instance) -> None:
    assert len(running.workers()) == 2
    for _ in range(10):
        async with httpx.AsyncClient(base_url=running.url) as client:
            assert (await client.get("/livez")).status_code == 200
    async with httpx.AsyncClient(base_url=running.url) as client:
        figures = (await client.get("/metrics")).text
    (line,) = [
        line
        for line in figures.splitlines()
        if line.startswith("catraca_http_requests_total") and "livez" in line
    ]
    assert line.endswith(" 10.0")


async def test_killed_worker_is_replaced_and_the_others_go_on(running: Instance) -> None:
    sub = await running.write_name("Nilza")
    victim, survivor = running.workers()
    os.kill(victim, SIGKILL)
    for _ in range(20):
        assert await running.read_name(sub) == "Nilza"
    await until(lambda: len(running.workers()) == 2 and victim not in running.workers())
    assert survivor in running.workers()


async def test_a_taken_port_is_one_clear_line_and_starts_nothing(here: Instance) -> None:
    with socket.create_server(("127.0.0.1", here.port)):
        code, output, errors = await here.output("up")
    assert code == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert str(here.port) in line
    assert "CATRACA_PORT" in line
    assert not (here.state / "postgres").exists()


async def test_a_state_folder_in_use_names_the_process(running: Instance) -> None:
    async with instance() as second:
        second.settings = {"CATRACA_STATE_DIR": str(running.state)}
        code, _, errors = await second.output("up")
    assert code == 1
    assert running.process is not None
    assert f"process {running.process.pid}" in errors
    assert "CATRACA_STATE_DIR" in errors
    assert len(errors.splitlines()) == 1


async def test_stopped_while_starting_it_leaves_nothing_running(here: Instance) -> None:
    here.process = await here.command("up", "--json")
    assert here.process.stderr is not None
    await until(lambda: (here.state / "postgres.new").exists() or (here.state / "postgres").exists())
    family = here.family()
    assert await here.stop() == 0
    assert not [pid for pid in family if is_alive(pid)]
    await here.start()
    assert await here.stop() == 0


async def test_commands_find_the_running_instance_without_settings(running: Instance) -> None:
    code, output, errors = await running.output("migrate", "--json")
    assert (code, errors) == (0, "")
    assert '"migrated": []' in output


async def test_command_that_needs_a_database_says_how_to_have_one(here: Instance) -> None:
    code, _, errors = await here.output("migrate")
    assert code == 2
    assert "catraca up" in errors
    assert len(errors.splitlines()) == 1


async def test_demo_tokens_are_printed_and_work(running: Instance) -> None:
    assert running.ready["demo_tokens"].keys() == {"operator", "driver", "passenger"}
    for role, token in running.ready["demo_tokens"].items():
        async with httpx.AsyncClient(base_url=running.url) as client:
            answer = await client.get("/v1/me", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200
        assert role in answer.json()["roles"]
        assert answer.json()["name"]


async def test_folder_of_an_earlier_version_migrates(
    here: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER, earlier)
    for script in (earlier / "versions").glob("*.py"):
        if not script.name.startswith("0001"):
            script.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "FOLDER", earlier)
        server = EmbeddedPostgres(here.state)
        await server.start()
        assert await migrate(server.url) == ["0001"]
        await _write_audit_row(server.url)
        await server.stop()
    await here.start()
    assert await here.query("SELECT version_num FROM alembic_version") == known_revisions()[-1]
    assert await here.query("SELECT count(*) FROM audit_log WHERE action = 'kept'") == 1
    assert await here.stop() == 0


async def _write_audit_row(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "INSERT INTO audit_log (id, action, subject_kind, subject_id)"
        " VALUES (gen_random_uuid(), 'kept', 'test', '1')"
    )
    await connection.close()


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="as an ordinary user, every journey here shows it")
async def test_ordinary_user_runs_it_all_and_root_may_pass_by(here: Instance) -> None:
    nobody = pwd.getpwnam("nobody")
    as_nobody: dict[str, Any] = {
        **as_account(nobody.pw_uid, nobody.pw_gid),
        "cwd": "/",
        "env": {
            "HOME": "/",
            # This interpreter may be in a folder that only root can enter.
            "PYTHONPATH": f"{Path(catraca.__file__).parent.parent}:{Path(asyncpg.__file__).parent.parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    }
    nobodys_python = interpreter_for(as_nobody, here.folder)
    here.state.mkdir()
    os.chown(here.state, nobody.pw_uid, nobody.pw_gid)
    here.options, here.python = as_nobody, nobodys_python
    await here.start()
    assert {os.stat(f"/proc/{pid}").st_uid for pid in here.family()} == {nobody.pw_uid}
    sub = await here.write_name("Iracema")
    assert await here.stop() == 0

    here.options, here.python = {}, sys.executable
    await here.start()
    assert await here.read_name(sub) == "Iracema"
    assert await here.stop() == 0

    here.options, here.python = as_nobody, nobodys_python
    await here.start()
    assert await here.read_name(sub) == "Iracema"
    assert await here.stop() == 0
    assert stat.S_IMODE(here.folder.stat().st_mode) == 0o755
