import httpx
import pytest

from catraca.roles.parts import Parts
from tests.domains.scheduling.clinic import Clinic, open_clinic
from tests.domains.scheduling.waitlist import Line


@pytest.fixture
async def clinic(api: httpx.AsyncClient, parts: Parts) -> Clinic:
    return await open_clinic(api, parts)


@pytest.fixture
def line(clinic: Clinic) -> Line:
    return Line(clinic)
