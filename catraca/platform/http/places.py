"""Limits on requests at a time: a few run, others wait in order, without a database connection."""

import asyncio
from collections import deque
from typing import Final
from uuid import UUID

from prometheus_client import Counter
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from catraca.platform.errors import Refusal

WAITS = Counter(
    "catraca_http_waits_total",
    "Requests that had to wait for a place, by line and outcome.",
    ["line", "outcome"],
)


class Places:
    """`count` places. Callers without one wait in order; `refusal` is raised if `most_waiting` others do."""

    __slots__ = ("_free", "_line", "_most_waiting", "_refusal", "_waiting", "count")

    def __init__(self, line: str, *, count: int, most_waiting: int, refusal: type[Refusal]) -> None:
        """`line` is the name of these places in the metric."""
        self.count: Final = count
        self._free = count
        self._line = line
        self._most_waiting = most_waiting
        self._refusal = refusal
        self._waiting: deque[asyncio.Future[None]] | None = None  # made for the first caller that waits

    @property
    def unused(self) -> bool:
        return self._free == self.count

    def take_free(self) -> bool:
        """Take a place without waiting. True if one was free, and no caller waits for it."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take a place, or wait for one. The caller bounds the wait."""
        if self.take_free():
            return
        turn = self.line_up()
        try:
            await turn
        except asyncio.CancelledError:
            self.leave(turn)
            raise

    def line_up(self) -> asyncio.Future[None]:
        """Wait in the line: the future is done as soon as this caller has a place."""
        if self._waiting is None:
            self._waiting = deque()
        if len(self._waiting) >= self._most_waiting:
            WAITS.labels(self._line, "refused").inc()
            raise self._refusal
        WAITS.labels(self._line, "waited").inc()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return turn

    def leave(self, turn: asyncio.Future[None]) -> None:
        """Leave the line; a place that was given at the same time is given back."""
        if turn.done() and not turn.cancelled():
            self.release()
            return
        turn.cancel()
        if self._waiting is not None and turn in self._waiting:
            self._waiting.remove(turn)

    def release(self) -> None:
        """Give the place back: to the caller that waits longest, if any does."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class PersonalPlaces:
    """Places for each person's requests, in this process."""

    def __init__(self, *, count: int, most_waiting: int, refusal: type[Refusal]) -> None:
        self._count = count
        self._most_waiting = most_waiting
        self._refusal = refusal
        self._people: dict[UUID, Places] = {}

    async def take(self, person: UUID, receive: Receive) -> Receive:
        """Take a place for a request of this person, or wait for one until its client is gone.

        Returns the function that receives the request's messages from now on.
        """
        places = self._people.get(person)
        if places is None:
            places = self._people[person] = Places(
                "person", count=self._count, most_waiting=self._most_waiting, refusal=self._refusal
            )
        if places.take_free():
            return receive
        inbox = _Inbox(receive)
        try:
            await inbox.wait_for(places)
        except BaseException:
            self._forget_unused(person, places)
            raise
        return inbox.receive

    def release(self, person: UUID) -> None:
        places = self._people[person]
        places.release()
        self._forget_unused(person, places)

    def _forget_unused(self, person: UUID, places: Places) -> None:
        if places.unused:
            self._people.pop(person, None)


class _Inbox:
    """Receives the messages of a waiting request, to notice its client's disconnect, and keeps them."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: deque[Message] = deque()

    async def receive(self) -> Message:
        return self._kept.popleft() if self._kept else await self._receive()

    async def wait_for(self, places: Places) -> None:
        """Take a place; raises `ClientDisconnect` if the client goes first."""
        turn = places.line_up()
        watching = asyncio.ensure_future(self._watch())
        try:
            try:
                await asyncio.wait((turn, watching), return_when=asyncio.FIRST_COMPLETED)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            if not turn.done():
                watching.result()
        except BaseException:
            places.leave(turn)
            raise

    async def _watch(self) -> None:
        """Receive until the client is gone, or its body is too large; raises either."""
        while True:
            message = await self._receive()
            self._kept.append(message)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
