"""The contract of roles: run until stopped, drain, raise failures."""

import asyncio

import pytest

from catraca.roles.runner import Life, RoleFailed, all_of, first_of, run_roles


class Steady:
    """Runs until stopped, then drains for `drain_seconds`."""

    def __init__(self, drain_seconds: float = 0) -> None:
        self.drain_seconds = drain_seconds
        self.finished = False

    async def run(self, life: Life) -> None:
        await life.stopping.wait()
        await asyncio.sleep(self.drain_seconds)
        self.finished = True


class Failing:
    async def run(self, life: Life) -> None:
        raise ValueError("broken")


class FailingWhileDraining:
    async def run(self, life: Life) -> None:
        await life.stopping.wait()
        raise ValueError("broken")


class Leaving:
    async def run(self, life: Life) -> None:
        return


async def test_roles_run_until_stopped_and_finish_their_work() -> None:
    life, role = Life(), Steady(drain_seconds=0.05)
    running = asyncio.create_task(run_roles([role], life))
    await asyncio.sleep(0)
    assert not running.done()
    life.stopping.set()
    await running
    assert role.finished


@pytest.mark.parametrize("kind", [Failing, Leaving])
async def test_failed_or_returned_role_stops_the_others(kind: type) -> None:
    steady = Steady()
    with pytest.raises(RoleFailed, match=kind.__name__):
        await run_roles([steady, kind()], Life())
    assert steady.finished


async def test_failure_while_draining_is_raised() -> None:
    life = Life()
    life.stopping.set()
    with pytest.raises(RoleFailed, match="FailingWhileDraining"):
        await run_roles([Steady(), FailingWhileDraining()], life)


async def test_long_drain_is_canceled() -> None:
    life, role = Life(), Steady(drain_seconds=3600)
    life.stopping.set()
    await run_roles([role], life, drain_seconds=0.01)
    assert not role.finished


async def test_second_signal_cancels_the_drain() -> None:
    life, role = Life(), Steady(drain_seconds=3600)
    life.stopping.set()
    life.hurrying.set()
    await run_roles([role], life)
    assert not role.finished


async def test_first_of_ends_with_the_first_and_cancels_the_rest() -> None:
    canceled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            canceled.set()

    await first_of(slow(), asyncio.sleep(0))
    assert canceled.is_set()


async def test_all_of_raises_the_first_failure_and_cancels_the_rest() -> None:
    canceled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            canceled.set()

    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await all_of(slow(), broken())
    assert canceled.is_set()
    await all_of()
