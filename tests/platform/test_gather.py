"""Many small questions, one trip at a time."""

import asyncio
from collections.abc import Sequence

import pytest

from catraca.platform.gather import Gather


class Trips:
    """Doubles each question; every trip waits until the test lets it go."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []
        self.go = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def run(self, questions: Sequence[int]) -> Sequence[int]:
        self.made.append(list(questions))
        await self.go.acquire()
        if self.error is not None:
            raise self.error
        return [2 * question for question in questions]


async def settle() -> None:
    """Let everything run that can run without the test's leave."""
    for _ in range(10):
        await asyncio.sleep(0)


async def asked(gather: Gather[int, int], *questions: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(gather.ask(question)) for question in questions]
    await settle()
    return tasks


async def test_what_arrives_during_a_trip_goes_together_on_the_next() -> None:
    trips = Trips()
    gather = Gather(trips.run)
    first = await asked(gather, 1)
    later = await asked(gather, 2, 3, 4)
    assert trips.made == [[1]]
    trips.go.release()
    trips.go.release()
    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8]
    assert trips.made == [[1], [2, 3, 4]]


async def test_a_trip_takes_no_more_than_its_most() -> None:
    trips = Trips()
    trips.go = asyncio.Semaphore(9)
    gather = Gather(trips.run, most=2)
    answers = await asyncio.gather(*(gather.ask(number) for number in range(5)))
    assert answers == [0, 2, 4, 6, 8]
    assert trips.made == [[0, 1], [2, 3], [4]]


async def test_a_caller_who_gives_up_before_the_trip_is_not_asked_for() -> None:
    trips = Trips()
    gather = Gather(trips.run)
    first = await asked(gather, 1)
    second, third = await asked(gather, 2, 3)
    second.cancel()
    trips.go.release()
    trips.go.release()
    assert await asyncio.gather(*first, third) == [2, 6]
    assert trips.made == [[1], [3]]


async def test_a_caller_who_gives_up_during_the_trip_harms_no_other() -> None:
    trips = Trips()
    gather = Gather(trips.run)
    first, second = await asked(gather, 1, 2)
    assert trips.made == [[1, 2]]
    first.cancel()
    trips.go.release()
    assert await second == 4
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_an_error_goes_to_each_of_its_trip_and_to_no_other() -> None:
    trips = Trips()
    gather = Gather(trips.run)
    failing = await asked(gather, 1, 2)
    fine = await asked(gather, 3)
    trips.error = LookupError("away")
    trips.go.release()
    results = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(result) for result in results] == [LookupError, LookupError]
    trips.error = None
    trips.go.release()
    assert await asyncio.gather(*fine) == [6]


async def test_a_run_that_leaves_questions_open_is_an_error_and_nobody_waits_for_ever() -> None:
    async def forgetful(questions: Sequence[int]) -> Sequence[int]:
        return []

    with pytest.raises(RuntimeError, match="every question"):
        await Gather(forgetful).ask(1)


async def test_when_the_trip_itself_is_canceled_every_waiter_is_too() -> None:
    trips = Trips()
    gather = Gather(trips.run)
    going, waiting = [*await asked(gather, 1), *await asked(gather, 2)]
    assert gather._calls is not None
    gather._calls.cancel()
    await asyncio.wait([going, waiting], timeout=10)
    assert going.cancelled()
    assert waiting.cancelled()
    again = asyncio.create_task(gather.ask(3))
    trips.go.release()
    assert await again == 6
