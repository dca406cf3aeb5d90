"""Folders and servers for the tests of embedded servers."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from catraca.platform.embedded import (
    EmbeddedPostgres,
    folders,
)
from tests.platform.embedded.stage import Stage
from tests.servers import private_folder


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a test; it uses none of the system's own folders."""
    folder = private_folder()
    (folder / "shared").mkdir()
    monkeypatch.setattr(folders, "SHARED", folder / "shared" / "catraca")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def bare_stage(place: Path) -> AsyncIterator[Stage]:
    stage = Stage(place)
    yield stage
    await stage.end()


@pytest.fixture(scope="module")
async def made() -> AsyncIterator[Path]:
    """A state folder after a first start and stop, to copy: making one is slow."""
    folder = private_folder()
    postgres = EmbeddedPostgres(folder / "state")
    await postgres.start()
    await postgres.stop()
    yield folder / "state"
    shutil.rmtree(folder)


@pytest.fixture
def stage(bare_stage: Stage, made: Path) -> Stage:
    """With existing data; tests of the first start use the empty one."""
    subprocess.run(["cp", "-a", made, bare_stage.state], check=True)
    return bare_stage
