"""Settings with which nothing is amiss, and databases to spoil."""

from pathlib import Path
from uuid import uuid4

import pytest

from catraca.settings import Settings
from tests.conftest import free_port
from tests.servers import Stack


@pytest.fixture(scope="session")
async def quiet_url(stack: Stack) -> str:
    """A migrated database in whose queues nobody else leaves anything."""
    return await stack.migrated_database(f"quiet-{uuid4().hex[:8]}")


@pytest.fixture
def sound(settings: Settings, quiet_url: str, tmp_path: Path) -> Settings:
    """Settings with which all is well, to be spoilt."""
    own = {"port": free_port(), "state_dir": tmp_path, "database_url": quiet_url}
    return settings.changed(**own)


@pytest.fixture
async def fresh_url(stack: Stack) -> str:
    """An empty database that a test may spoil."""
    return await stack.new_database(f"doctor-{uuid4().hex[:8]}")
