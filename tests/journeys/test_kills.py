"""`kill -9` of all processes and of each part: committed data stay, and no manual step is needed."""

import os
from collections.abc import AsyncIterator
from signal import SIGINT, SIGKILL

import httpx
import pytest

from tests.conftest import free_port
from tests.journeys.instances import Instance, instance, is_alive
from tests.servers import freeze, until

pytestmark = pytest.mark.xdist_group("journeys")


@pytest.fixture(scope="module")
async def place() -> AsyncIterator[Instance]:
    async with instance() as found:
        yield found


@pytest.fixture
async def here(place: Instance) -> Instance:
    """A running Catraca; it goes on from test to test as far as they leave it running."""
    if place.process is None or place.process.returncode is not None:
        await place.start()
    return place


async def restart_at_once(here: Instance) -> None:
    assert await here.ended() == -SIGKILL
    await here.start()


async def test_data_survive_kill_9_of_every_process(here: Instance) -> None:
    sub = await here.write_name("Odete")
    for pid in here.family():
        os.kill(pid, SIGKILL)
    await restart_at_once(here)
    assert await here.read_name(sub) == "Odete"


async def test_data_survive_kill_9_of_up_and_its_children_end(
    here: Instance,
) -> None:
    sub = await here.write_name("Rosa")
    first, *children = here.family()
    os.kill(first, SIGKILL)
    await restart_at_once(here)
    await until(lambda: not [pid for pid in children if is_alive(pid)])
    assert await here.read_name(sub) == "Rosa"


@pytest.mark.long
async def test_next_start_waits_for_a_frozen_worker_of_a_killed_up(here: Instance) -> None:
    sub = await here.write_name("Rita")
    await freeze_and_start_again(here, here.workers()[0])
    assert await here.read_name(sub) == "Rita"


async def test_next_start_waits_for_a_worker_frozen_at_its_start(here: Instance) -> None:
    sub = await here.write_name("Rute")
    assert await here.stop() == 0
    here.process = await here.command("up", "--json")
    (worker, *_) = await until(here.workers)
    await freeze_and_start_again(here, worker)
    assert await here.read_name(sub) == "Rute"


async def test_next_start_on_another_port_waits_for_a_frozen_worker(here: Instance) -> None:
    """The worker is found by a lock in the state folder, not by the port that it keeps open."""
    sub = await here.write_name("Rosane")
    here.port, old_port = free_port(), here.port
    await freeze_and_start_again(here, here.workers()[0])
    assert await here.read_name(sub) == "Rosane"
    assert here.port != old_port


async def freeze_and_start_again(here: Instance, worker: int) -> None:
    """Freeze the worker, kill `catraca up`, and check that the next one waits until the worker is dead."""
    # Frozen before the parent's death, at which the kernel sends SIGTERM: a running worker would end.
    freeze(worker)
    try:
        first, *_ = here.family()
        os.kill(first, SIGKILL)
        assert await here.ended() == -SIGKILL
        here.process = await here.command("up", "--json")
        assert here.process.stdout is not None
        assert here.process.stderr is not None
        assert b"earlier run" in await here.process.stderr.readline()
    finally:
        os.kill(worker, SIGKILL)
    assert b"url" in await here.process.stdout.readline()


@pytest.mark.parametrize("part", ["postgres", "redis"])
async def test_killed_server_is_started_again_and_has_the_data(here: Instance, part: str) -> None:
    sub = await here.write_name("Zeca")
    workers = here.workers()
    victim = getattr(here, part)()
    os.kill(victim, SIGKILL)

    async def back() -> bool:
        """Answered by another server: backends of a killed one may go on for a moment."""
        if is_alive(victim) or not here.has_another(part, victim):
            return False
        async with httpx.AsyncClient(base_url=here.url) as client:
            answer = await client.get("/readyz")
        return answer.json()["parts"] == {"database": "up", "redis": "up", "bus": "up"}

    await until(back)
    assert await here.read_name(sub) == "Zeca"
    assert here.workers() == workers, "no worker had to be replaced for it"


async def test_a_second_interrupt_stops_at_once(here: Instance) -> None:
    freeze(*here.workers())
    assert here.process is not None
    assert here.process.stderr is not None
    here.process.send_signal(SIGINT)
    while b"Stopping" not in await here.process.stderr.readline():
        pass
    family = here.family()
    assert await here.stop(SIGINT) == 0
    assert not [pid for pid in family if is_alive(pid)]
