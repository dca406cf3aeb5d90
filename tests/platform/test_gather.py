"""Many small questions, one call at a time."""

import asyncio
from collections.abc import Sequence

import pytest

from catraca.platform.errors import Busy
from catraca.platform.gather import Gather


class Calls:
    """Doubles each question. Every call waits until the test releases it; some questions fail."""

    def __init__(self, *, released: int = 0) -> None:
        self.made: list[list[int]] = []
        self.go = asyncio.Semaphore(released)
        self.error: Exception | None = None
        # Questions that break the call they are in, and how often.
        self.bad: dict[int, int] = {}

    async def run(self, questions: Sequence[int]) -> Sequence[int]:
        self.made.append(list(questions))
        await self.go.acquire()
        if self.error is not None:
            raise self.error
        for question in questions:
            if self.bad.get(question, 0) > 0:
                self.bad[question] -= 1
                raise LookupError(question)
        return [2 * question for question in questions]


async def settle() -> None:
    """Run everything that can run before the test releases a call."""
    for _ in range(10):
        await asyncio.sleep(0)


async def asked(gather: Gather[int, int], *questions: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(gather.ask(question)) for question in questions]
    await settle()
    return tasks


async def test_questions_during_a_call_go_together_into_the_next() -> None:
    calls = Calls()
    gather = Gather(calls.run)
    first = await asked(gather, 1)
    later = await asked(gather, 2, 3, 4)
    assert calls.made == [[1]]
    calls.go.release()
    calls.go.release()
    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8]
    assert calls.made == [[1], [2, 3, 4]]


async def test_callers_that_ask_again_join_those_that_wait() -> None:
    calls = Calls()
    gather = Gather(calls.run)

    async def ask_twice(question: int) -> None:
        await gather.ask(question)
        await gather.ask(question)

    twice = [asyncio.create_task(ask_twice(question)) for question in (1, 2)]
    await settle()
    later = await asked(gather, 3)
    for _ in range(3):
        calls.go.release()
    await asyncio.gather(*twice, *later)
    assert calls.made == [[1, 2], [3, 1, 2]]


async def test_questions_that_wait_for_the_pace_share_a_call() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, pace_seconds=0.5)
    await asyncio.gather(*await asked(gather, 1))
    later = [*await asked(gather, 2), *await asked(gather, 3)]
    assert calls.made == [[1]]
    await asyncio.gather(*later)
    assert calls.made == [[1], [2, 3]]


async def test_call_takes_at_most_its_limit() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, most=2)
    answers = await asyncio.gather(*(gather.ask(number) for number in range(5)))
    assert answers == [0, 2, 4, 6, 8]
    assert calls.made == [[0, 1], [2, 3], [4]]


async def test_question_of_a_canceled_caller_is_dropped() -> None:
    calls = Calls()
    gather = Gather(calls.run)
    first = await asked(gather, 1)
    second, third = await asked(gather, 2, 3)
    second.cancel()
    calls.go.release()
    calls.go.release()
    assert await asyncio.gather(*first, third) == [2, 6]
    assert calls.made == [[1], [3]]


async def test_caller_canceled_during_the_call_affects_no_other() -> None:
    calls = Calls()
    gather = Gather(calls.run)
    first, second = await asked(gather, 1, 2)
    assert calls.made == [[1, 2]]
    first.cancel()
    calls.go.release()
    assert await second == 4
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_error_is_raised_to_every_caller_of_its_call_only() -> None:
    calls = Calls()
    gather = Gather(calls.run)
    failing = await asked(gather, 1, 2)
    fine = await asked(gather, 3)
    calls.error = LookupError("away")
    calls.go.release()
    results = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(result) for result in results] == [LookupError, LookupError]
    calls.error = None
    calls.go.release()
    assert await asyncio.gather(*fine) == [6]


async def test_missing_answers_are_an_error() -> None:
    async def forgetful(questions: Sequence[int]) -> Sequence[int]:
        return []

    with pytest.raises(RuntimeError, match="every question"):
        await Gather(forgetful).ask(1)


async def test_canceled_call_cancels_every_waiting_caller() -> None:
    calls = Calls()
    gather = Gather(calls.run)
    going, waiting = [*await asked(gather, 1), *await asked(gather, 2)]
    assert gather._calls is not None
    gather._calls.cancel()
    await asyncio.wait([going, waiting], timeout=10)
    assert going.cancelled()
    assert waiting.cancelled()
    again = asyncio.create_task(gather.ask(3))
    calls.go.release()
    assert await again == 6


async def test_same_questions_are_asked_once_and_share_the_answer() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, same=lambda number: number % 10)
    assert await asyncio.gather(*map(gather.ask, (1, 2, 11, 21, 2))) == [2, 4, 2, 2, 4]
    assert calls.made == [[1, 2]]


async def test_canceled_caller_of_a_shared_question_affects_no_other() -> None:
    calls = Calls()
    gather = Gather(calls.run, same=lambda number: number)
    first, second = await asked(gather, 1, 1)
    first.cancel()
    calls.go.release()
    assert await second == 2


async def test_questions_to_keep_apart_go_into_calls_in_order() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, apart=lambda number: number % 10)
    assert await asyncio.gather(*map(gather.ask, (1, 11, 2, 21, 12, 3))) == [2, 22, 4, 42, 24, 6]
    assert calls.made == [[1, 2, 3], [11, 12], [21]]


async def test_questions_to_keep_apart_can_be_shared() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, same=lambda number: number, apart=lambda number: number % 10)
    assert await asyncio.gather(*map(gather.ask, (1, 11, 1, 11))) == [2, 22, 2, 22]
    assert calls.made == [[1], [11]]


async def test_after_a_failed_call_each_question_is_asked_alone() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, tries_alone=1)
    calls.bad = {2: 9}
    results = await asyncio.gather(*map(gather.ask, (1, 2, 3)), return_exceptions=True)
    assert (results[0], results[2]) == (2, 6)
    assert isinstance(results[1], LookupError)
    assert calls.made == [[1, 2, 3], [1], [2], [3]]


async def test_question_asked_alone_is_retried() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, same=lambda number: number, tries_alone=2)
    calls.bad = {2: 2}
    assert await asyncio.gather(*map(gather.ask, (1, 2, 2))) == [2, 4, 4]
    assert calls.made == [[1, 2], [1], [2], [2]]


async def test_refusal_is_raised_to_every_caller_at_once() -> None:
    calls = Calls(released=9)
    gather = Gather(calls.run, tries_alone=2)
    calls.error = Busy()
    results = await asyncio.gather(*map(gather.ask, (1, 2)), return_exceptions=True)
    assert [type(result) for result in results] == [Busy, Busy]
    assert calls.made == [[1, 2]]


async def test_refusal_of_a_question_asked_alone_is_its_own() -> None:
    made: list[list[int]] = []

    async def run(questions: Sequence[int]) -> Sequence[int]:
        made.append(list(questions))
        if len(questions) > 1:
            raise LookupError
        if questions == [1]:
            raise Busy
        return [2 * question for question in questions]

    gather = Gather(run, tries_alone=2)
    results = await asyncio.gather(*map(gather.ask, (1, 2)), return_exceptions=True)
    assert isinstance(results[0], Busy)
    assert results[1] == 4
    assert made == [[1, 2], [1], [1], [2]]


async def test_cancellation_while_asking_alone_cancels_every_caller() -> None:
    calls = Calls(released=1)
    gather = Gather(calls.run, tries_alone=1)
    calls.bad = {1: 1}
    tasks = await asked(gather, 1, 2)
    assert calls.made == [[1, 2], [1]]
    assert gather._calls is not None
    gather._calls.cancel()
    await asyncio.wait(tasks, timeout=10)
    assert [task.cancelled() for task in tasks] == [True, True]
