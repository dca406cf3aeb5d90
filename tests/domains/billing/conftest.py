import httpx
import pytest

from catraca.platform.database import Database
from tests.domains.billing.till import Till


@pytest.fixture
def till(api: httpx.AsyncClient, database: Database) -> Till:
    return Till(api, database)
