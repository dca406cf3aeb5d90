"""Settings with which nothing is amiss, and databases to spoil."""

from pathlib import Path
from uuid import uuid4

import pytest

from catraca.settings import Settings
from tests.conftest import free_port
from tests.servers import Stack


@pytest.fixture
def sound(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with which all is well, to be spoilt."""
    return settings.model_copy(update={"port": free_port(), "state_dir": tmp_path})


@pytest.fixture
async def fresh_url(stack: Stack) -> str:
    """An empty database that a test may spoil."""
    return await stack.new_database(f"doctor-{uuid4().hex[:8]}")
