"""Bounded waits and growing pauses."""

import asyncio

from catraca.platform.pauses import Backoff, backoff_seconds, within


def test_pauses_double_up_to_the_longest():
    for retry, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (100_000, 5.0)):
        pauses = [backoff_seconds(retry, first=0.1, longest=5.0) for _ in range(100)]
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert max(pauses) - min(pauses) > longest / 10


def test_backoff_starts_again_after_a_reset():
    backoff = Backoff(first_seconds=1, longest_seconds=60)
    pauses = [backoff.next_seconds() for _ in range(3)]
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2 <= pauses[2] <= 4
    backoff.reset()
    assert backoff.next_seconds() <= 1


async def test_wait_ends_with_the_first_event():
    first, second = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().call_soon(second.set)
    assert await within(60, first, second)


async def test_wait_ends_at_its_limit():
    assert not await within(0.01, asyncio.Event())
