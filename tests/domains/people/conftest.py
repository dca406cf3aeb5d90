"""A second API on the same database that requires approval of drivers and has low limits."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import httpx
import pytest

from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import free_port, listening


@pytest.fixture(scope="session")
async def strict_api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Drivers need approval; three sign-ins a day for an account, five for an address behind the proxy."""
    changes = {
        "port": free_port(),
        "driver_approval": "required",
        "trusted_proxies": [ip_network("127.0.0.1")],
        "rate_limit_sign_in_account": "3/day",
        "rate_limit_sign_in_address": "5/day",
    }
    strict = settings.changed(**changes)
    async with (
        open_parts(strict) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, headers={"accept-language": "en"}, timeout=30) as client,
    ):
        yield client
