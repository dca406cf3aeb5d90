"""HTTP callers that repeat a request until it is answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from catraca.platform.clock import monotonic_seconds
from tests.conftest import bearer
from tests.storms.rides.ledger import Ledger, Try
from tests.support.http import Answer, Line

T = TypeVar("T")
# The API's own limit for an answer is 15 s.
ANSWER_SECONDS = 25
# The callers' own pace, far below the `Retry-After` they are given: this is a storm.
REPEAT_SECONDS = 0.05
# Killed processes and servers run again long before.
PATIENCE_SECONDS = 60
_turns = count()


@dataclass
class JsonAnswer(Answer):
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Caller:
    """Has one connection at a time, to one of these ports; when it is lost, to the next port."""

    ports: Sequence[int]
    ledger: Ledger = field(default_factory=Ledger)
    turn: int = field(default_factory=lambda: next(_turns))
    answer_seconds: float = ANSWER_SECONDS
    _line: Line | None = None

    async def ask(self, message: bytes) -> JsonAnswer:
        """Repeat the request until the answer is not 503; returns that answer."""
        began = monotonic_seconds()
        while True:
            answer = await self.ask_once(message)
            if answer is not None and answer.status != 503:
                return answer
            last = "lost connections" if answer is None else answer.body.decode()
            assert monotonic_seconds() - began < PATIENCE_SECONDS, f"only {last} for {PATIENCE_SECONDS} s"
            await self.hang_up()
            await asyncio.sleep(REPEAT_SECONDS)

    async def accept(self, tried: Try) -> JsonAnswer:
        """Send the attempt and record its answer; a repeat must get the same answer."""
        answer = await self.ask(accept_request(tried))
        self.ledger.note(tried, answer)
        return answer

    async def connect(self) -> None:
        if self._line is None:
            port = self.ports[self.turn % len(self.ports)]
            self._line = Line(*await asyncio.open_connection("127.0.0.1", port))

    async def hang_up(self) -> None:
        self.turn += 1
        line, self._line = self._line, None
        if line is not None:
            await line.hang_up()

    async def ask_once(self, message: bytes) -> JsonAnswer | None:
        """Send the request once; None if the connection was lost or refused."""
        try:
            async with asyncio.timeout(self.answer_seconds):
                await self.connect()
                assert self._line is not None
                self._line.send(message)
                answer = await self._line.answer()
        except TimeoutError:
            raise AssertionError(f"no answer within {self.answer_seconds} s") from None
        except (OSError, asyncio.IncompleteReadError):
            self.ledger.counts["lost"] += 1
            return None
        self.ledger.counts[str(answer.status)] += 1
        assert answer.status < 500 or answer.status == 503, answer.body.decode()
        return JsonAnswer(answer.status, answer.headers, answer.body)


@asynccontextmanager
async def calling(
    ports: Sequence[int], ledger: Ledger | None = None, *, answer_seconds: float = ANSWER_SECONDS
) -> AsyncIterator[Caller]:
    caller = Caller(ports, ledger or Ledger(), answer_seconds=answer_seconds)
    try:
        yield caller
    finally:
        await caller.hang_up()


@asynccontextmanager
async def crowd(ports: Sequence[int], ledger: Ledger, size: int) -> AsyncIterator[list[Caller]]:
    """Callers with open connections, spread over the ports."""
    callers = [Caller(ports, ledger, number) for number in range(size)]
    try:
        await together(*(caller.connect() for caller in callers))
        yield callers
    finally:
        await together(*(caller.hang_up() for caller in callers))


async def together(*works: Awaitable[T]) -> list[T]:
    """Await all; the first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def request(
    method: str, path: str, *, token: str = "", body: object = None, key: str | None = None, trace: str = ""
) -> bytes:
    """A whole request in bytes. The response has `trace`, if given, as its request id."""
    sent = b"" if body is None else msgspec.json.encode(body)
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: catraca",
        f"content-length: {len(sent)}",
        *(["content-type: application/json"] if sent else []),
        *([f"authorization: {token}"] if token else []),
        *([f"idempotency-key: {key}"] if key else []),
        *([f"x-request-id: {trace}"] if trace else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + sent


@lru_cache(maxsize=4096)
def token_of(role: str, sub: UUID) -> str:
    return bearer(role, sub)["authorization"]


def accept_request(tried: Try) -> bytes:
    return request(
        "POST",
        f"/v1/rides/{tried.ride_id}/accept",
        token=token_of("driver", tried.driver_id),
        body={"driver_id": str(tried.driver_id), "idempotency_key": tried.key},
        # A refusal contains the request id: the same one for repeats, so that their bytes can be compared.
        trace=tried.key,
    )
