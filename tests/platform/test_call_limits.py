"""Turns by key, and pauses of hosts that do not answer."""

import asyncio

import pytest

from catraca.platform.call_limits import HOSTS_REMEMBERED, HostPauses, KeyLimits, NoTurn
from tests.servers import until


async def test_key_runs_few_blocks_and_delays_no_other_key() -> None:
    limits, done, running = KeyLimits(at_once=2, wait_seconds=60), asyncio.Event(), list[str]()

    async def block(key: str) -> None:
        async with limits.turn(key):
            running.append(key)
            await done.wait()
            running.remove(key)

    blocks = [asyncio.create_task(block("a")) for _ in range(5)] + [asyncio.create_task(block("b"))]
    await until(lambda: "b" in running)
    assert sorted(running) == ["a", "a", "b"]
    done.set()
    await asyncio.gather(*blocks)


async def test_long_wait_for_a_turn_is_refused() -> None:
    limits = KeyLimits(at_once=1, wait_seconds=0.01)
    async with limits.turn("a"):
        with pytest.raises(NoTurn):
            async with limits.turn("a"):
                pass
    async with limits.turn("a"):
        pass


def test_host_is_paused_after_failures_in_a_row() -> None:
    pauses = HostPauses(failures=3, pause_seconds=1000)
    for answered in (False, False, True, False, False):
        (pauses.record_answer if answered else pauses.record_silence)("a")
    assert not pauses.is_paused("a")
    pauses.record_silence("a")
    assert pauses.is_paused("a")
    assert not pauses.is_paused("b")


async def test_first_silence_after_a_pause_pauses_again() -> None:
    pauses = HostPauses(failures=3, pause_seconds=0.3)
    for _ in range(3):
        pauses.record_silence("a")
    await until(lambda: not pauses.is_paused("a"))
    pauses.record_silence("a")
    assert pauses.is_paused("a")


def test_number_of_remembered_hosts_is_limited() -> None:
    pauses = HostPauses(failures=1, pause_seconds=1000)
    for number in range(HOSTS_REMEMBERED + 1):
        pauses.record_silence(str(number))
    assert not pauses.is_paused("0")
    assert pauses.is_paused(str(HOSTS_REMEMBERED))
