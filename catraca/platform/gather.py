"""Many small questions, one call: questions that arrive during a call go together into the next call."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

import structlog

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import Refusal

K = TypeVar("K")
V = TypeVar("V")

log = structlog.get_logger()


class Gather(Generic[K, V]):
    """Turns concurrent single questions into one call of `run` at a time; each caller gets its own answer.

    `run` gets at most `most` questions and returns their answers in the same order; its error is raised to
    every caller. A canceled caller cancels only its own question: before the call the question is dropped,
    during the call its answer is.

    `same`: questions for which it returns the same value are asked once per call, and share the answer.
    `apart`: questions for which it returns the same value go into different calls, in their order.
    `tries_alone`: if a call fails, each of its questions is asked again by itself, at most so many times,
    and so fails only for its own cause. A refusal (such as `Busy`) is raised to every caller at once.
    `pace_seconds`: calls begin at least this long after each other. Questions wait a little longer, and more
    of them share a call; after a pause, a question does not wait.
    """

    def __init__(
        self,
        run: Callable[[Sequence[K]], Awaitable[Sequence[V]]],
        *,
        most: int = 256,
        same: Callable[[K], Hashable] | None = None,
        apart: Callable[[K], Hashable] | None = None,
        tries_alone: int = 0,
        pace_seconds: float = 0.0,
    ) -> None:
        self._run = run
        self._most = most
        self._same = same
        self._apart = apart
        self._tries_alone = tries_alone
        self._pace_seconds = pace_seconds
        self._next_call_at = 0.0
        self._waiting: deque[tuple[K, asyncio.Future[V]]] = deque()
        self._calls: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._calls is None:
            # In a context of its own: the task outlives the caller that happened to start it.
            self._calls = asyncio.create_task(self._make_calls(), context=contextvars.Context())
        return await answer

    async def _make_calls(self) -> None:
        try:
            while self._waiting:
                await self._keep_pace()
                if batch := self._next_batch():
                    await self._make_call(batch)
                    if len(batch) > 1:
                        # Those that were answered run now, and what they ask next goes into the next call.
                        await asyncio.sleep(0)
        finally:
            self._calls = None
            for _, answer in self._waiting:  # only if this task was canceled, as at the loop's end
                answer.cancel()
            self._waiting.clear()

    async def _keep_pace(self) -> None:
        early_seconds = self._next_call_at - monotonic_seconds()
        if early_seconds > 0:
            await asyncio.sleep(early_seconds)
        self._next_call_at = monotonic_seconds() + self._pace_seconds

    def _next_batch(self) -> "list[_Entry[K, V]]":
        batch: dict[Hashable, _Entry[K, V]] = {}
        groups: set[Hashable] = set()
        later: list[tuple[K, asyncio.Future[V]]] = []
        for _ in range(min(len(self._waiting), self._most)):
            question, answer = self._waiting.popleft()
            if answer.done():
                continue
            key = len(batch) if self._same is None else self._same(question)
            if key in batch:
                batch[key].answers.append(answer)
                continue
            if self._apart is not None:
                group = self._apart(question)
                if group in groups:
                    later.append((question, answer))
                    continue
                groups.add(group)
            batch[key] = _Entry(question, answer)
        self._waiting.extendleft(reversed(later))
        return list(batch.values())

    async def _make_call(self, batch: "list[_Entry[K, V]]") -> None:
        try:
            try:
                _answer(batch, await self._run([entry.question for entry in batch]))
            except Exception as error:
                if not self._tries_alone or isinstance(error, Refusal):
                    raise
                log.warning("gather_one_by_one", questions=len(batch), error=type(error).__name__)
                for entry in batch:
                    await self._ask_alone(entry)
        except Exception as error:  # noqa: BLE001 - raised to the callers
            _fail(batch, error)
        except BaseException:
            for entry in batch:
                for answer in entry.answers:
                    answer.cancel()
            raise

    async def _ask_alone(self, entry: "_Entry[K, V]") -> None:
        for tries_left in reversed(range(self._tries_alone)):
            try:
                _answer([entry], await self._run([entry.question]))
                break
            except Exception as error:  # noqa: BLE001 - raised to the caller
                if not tries_left:
                    _fail([entry], error)


class _Entry(Generic[K, V]):
    """A question of a call, and the callers that wait for its answer."""

    __slots__ = ("answers", "question")

    def __init__(self, question: K, answer: asyncio.Future[V]) -> None:
        self.question = question
        self.answers = [answer]


def _answer(batch: Sequence[_Entry[K, V]], answers: Sequence[V]) -> None:
    if len(answers) != len(batch):
        raise RuntimeError("a gathered call must answer every question")
    for entry, given in zip(batch, answers, strict=True):
        for answer in entry.answers:
            if not answer.done():
                answer.set_result(given)


def _fail(batch: Sequence[_Entry[K, V]], error: Exception) -> None:
    for entry in batch:
        for answer in entry.answers:
            if not answer.done():
                answer.set_exception(error)
