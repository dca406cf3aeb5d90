"""`catraca up --demo`: the demo city runs, and everything stops cleanly."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from signal import SIGINT, SIGKILL

import httpx
import pytest

from tests.journeys.instances import Instance, instance, is_alive
from tests.servers import until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("journeys")]
UNDER_WAY = "SELECT count(*) FROM rides WHERE status NOT IN ('COMPLETED', 'PAID', 'CANCELED')"


@pytest.fixture
async def here() -> AsyncIterator[Instance]:
    async with instance() as found:
        yield found


def demo_of(here: Instance) -> list[int]:
    return [pid for pid in here.family() if b"\0demo\0" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def stopped(here: Instance) -> str:
    """Send Ctrl-C and wait; returns the standard error output."""
    assert here.process is not None
    here.process.send_signal(SIGINT)
    _, errors = await here.process.communicate()
    assert here.process.returncode == 0, errors.decode()
    return errors.decode()


async def moves(here: Instance) -> bool:
    return bool(await here.query("SELECT count(*) FROM rides WHERE accepted_at IS NOT NULL"))


async def test_the_demo_city_runs_and_stops_with_the_server(here: Instance) -> None:
    await here.start("--demo")
    await until(lambda: moves(here))
    family = here.family()
    output = await stopped(here)
    assert "The demo city wakes up" in output
    assert "Traceback" not in output
    assert not [pid for pid in family if is_alive(pid)]

    await here.start("--demo")
    assert await here.query(UNDER_WAY) == 0, "somebody did not finish"
    (demo,) = await until(lambda: demo_of(here))
    os.kill(demo, SIGKILL)
    await until(lambda: not is_alive(demo))
    code, output, errors = await here.output("demo", "--for", "2", "--drivers", "3", "--json")
    assert code == 0, errors
    assert json.loads(output)["drivers"] == 3
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{here.url}/readyz")).status_code == 200
    assert "The demo city ended (SIGKILL); Catraca goes on serving" in await stopped(here)
