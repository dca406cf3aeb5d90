"""HTTP callers that sign up, and a publisher of malformed messages."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from uuid import UUID

import msgspec

from catraca.events import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE
from catraca.platform.bus import BusAway, Message, Transport
from tests.storms.sign_ups.ledger import Ledger, Poison, SignUp
from tests.support.http import Answer, Line

# The API's own limit for an answer is 15 s.
ANSWER_SECONDS = 25
# The callers' own pace, far below the `Retry-After` they are given: this is a storm.
REPEAT_SECONDS = 0.2
PUBLISH_SECONDS = 120
Take = Callable[[], Awaitable[SignUp | Poison | None]]


@dataclass
class Outage:
    """Counts of the answers to requests that began and ended within the outage."""

    lasts: bool = False
    answers: Counter[int] = field(default_factory=Counter)


@dataclass
class Callers:
    """The callers of one storm."""

    port: int
    bus: Transport
    ledger: Ledger
    outage: Outage = field(default_factory=Outage)

    async def call(self, take: Take, *, pause_seconds: float) -> None:
        """Take the next sign-up, repeat it until answered, and so on until none is left."""
        caller = _Caller(self.port, self.ledger, self.outage)
        try:
            while (one := await take()) is not None:
                if isinstance(one, Poison):
                    await self._put_into_queue(one)
                else:
                    await caller.sign_up(one)
                await asyncio.sleep(pause_seconds)
        finally:
            await caller.hang_up()

    async def _put_into_queue(self, poison: Poison) -> None:
        """Publish with a confirm; repeated while the bus is unavailable."""
        message = Message(
            id=poison.message_id, exchange=SIGN_UP_EXCHANGE, key=SIGN_UP_QUEUE, body=poison.body
        )
        async with asyncio.timeout(PUBLISH_SECONDS):
            while (outcome := (await self.bus.publish([message]))[0]) is not None:
                assert isinstance(outcome, BusAway), outcome
                await asyncio.sleep(REPEAT_SECONDS)
        self.ledger.poison[poison.message_id] = poison


@dataclass
class _Caller:
    """Has one connection at a time."""

    port: int
    ledger: Ledger
    outage: Outage
    line: Line | None = None

    async def sign_up(self, sign_up: SignUp) -> None:
        """Repeat the request with one key until acknowledged, unless the caller hangs up for good."""
        self.ledger.note_try(sign_up)
        if sign_up.hangs_up_after_seconds is not None:
            (await self._line()).send(_request(sign_up))
            await asyncio.sleep(sign_up.hangs_up_after_seconds)
            await self.hang_up()
            self.ledger.answers["not waited for"] += 1
            if not sign_up.comes_again:
                return
        while not await self._is_acknowledged(sign_up):  # noqa: ASYNC110 - the caller's own pace
            await asyncio.sleep(REPEAT_SECONDS)

    async def hang_up(self) -> None:
        if self.line is not None:
            await self.line.hang_up()
            self.line = None

    async def _is_acknowledged(self, sign_up: SignUp) -> bool:
        was_within = self.outage.lasts
        answer = await self._ask(sign_up)
        if answer is None:
            return False
        if was_within and self.outage.lasts:
            self.outage.answers[answer.status] += 1
        if answer.status == HTTPStatus.OK:
            self.ledger.acknowledge(UUID(msgspec.json.decode(answer.body)["id"]), sign_up)
        return answer.status == HTTPStatus.OK

    async def _ask(self, sign_up: SignUp) -> Answer | None:
        """Send the request and return its answer; None if the connection was lost."""
        line = await self._line()
        line.send(_request(sign_up))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await line.answer()
        except TimeoutError:
            raise AssertionError(f"no answer within {ANSWER_SECONDS} s") from None
        except (ConnectionError, asyncio.IncompleteReadError):
            self.ledger.answers["lost"] += 1
            await self.hang_up()
            return None
        self.ledger.answers[str(answer.status)] += 1
        assert answer.status in (200, 503), f"{answer.status}: {answer.body.decode()}"
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.problem()["code"]
        return answer

    async def _line(self) -> Line:
        if self.line is None:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.line = Line(*await asyncio.open_connection("127.0.0.1", self.port))
        return self.line


def _request(sign_up: SignUp) -> bytes:
    body = sign_up.body
    return (
        b"POST /v1/users HTTP/1.1\r\nhost: catraca\r\ncontent-type: application/json\r\n"
        b"idempotency-key: %b\r\ncontent-length: %d\r\n\r\n%b" % (sign_up.key.encode(), len(body), body)
    )
