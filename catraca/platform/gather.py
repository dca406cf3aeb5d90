"""Many small questions, one trip: what arrives while a trip is under way goes together on the next."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Gather(Generic[K, V]):
    """Turns concurrent single questions into one call of `run` at a time, each answered in its place.

    `run` is given at most `most` questions and answers all of them in order; what it raises is raised to
    each. A caller who gives up takes only its own question along: before the trip it is not asked at all,
    during the trip its answer is dropped.
    """

    def __init__(self, run: Callable[[Sequence[K]], Awaitable[Sequence[V]]], *, most: int = 256) -> None:
        self._run = run
        self._most = most
        self._waiting: deque[tuple[K, asyncio.Future[V]]] = deque()
        self._trips: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._trips is None:
            # Of its own context: it outlives the caller that happened to start it.
            self._trips = asyncio.create_task(self._make_trips(), context=contextvars.Context())
        return await answer

    async def _make_trips(self) -> None:
        try:
            while self._waiting:
                await self._make_trip(self._next_batch())
        finally:
            self._trips = None
            for _, answer in self._waiting:  # only when this task was canceled, as at the loop's end
                answer.cancel()
            self._waiting.clear()

    def _next_batch(self) -> list[tuple[K, asyncio.Future[V]]]:
        batch: list[tuple[K, asyncio.Future[V]]] = []
        while self._waiting and len(batch) < self._most:
            question, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((question, answer))
        return batch

    async def _make_trip(self, batch: list[tuple[K, asyncio.Future[V]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._run([question for question, _ in batch])
            if len(answers) != len(batch):
                raise RuntimeError("a gathered call must answer every question")  # noqa: TRY301
        except BaseException as error:
            for _, answer in batch:
                if answer.done():
                    continue
                if isinstance(error, Exception):
                    answer.set_exception(error)
                else:
                    answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for (_, answer), given in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(given)
