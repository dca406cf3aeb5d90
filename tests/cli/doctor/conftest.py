"""Settings without faults, and private databases."""

from pathlib import Path
from uuid import uuid4

import pytest

from catraca.settings import Settings
from tests.conftest import free_port
from tests.servers import Stack


@pytest.fixture(scope="session")
async def quiet_url(stack: Stack) -> str:
    """A migrated database that no other test uses."""
    return await stack.migrated_database(f"quiet-{uuid4().hex[:8]}")


@pytest.fixture
def sound(settings: Settings, quiet_url: str, tmp_path: Path) -> Settings:
    """Settings without faults, for tests to change."""
    own = {"port": free_port(), "state_dir": tmp_path, "database_url": quiet_url}
    return settings.changed(**own)


@pytest.fixture
async def fresh_url(stack: Stack) -> str:
    """An empty database that a test may break."""
    return await stack.new_database(f"doctor-{uuid4().hex[:8]}")
