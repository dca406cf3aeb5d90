"""Sign-ups during a long outage of PostgreSQL: no failure is counted, and all recovers by itself."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from uuid import uuid4

from catraca.events import SIGN_UP_QUEUE
from catraca.platform.clock import monotonic_seconds
from catraca.roles.runner import all_of
from tests.servers import until
from tests.storms.servers import StormServers
from tests.storms.sign_ups.fleet import SignUpFleet, sign_up_fleet
from tests.storms.sign_ups.ledger import SignUp, newcomer

CALLERS = 8
CALLER_PAUSE_SECONDS = 0.02
# Small batches, so that most sign-ups of an outage wait in the queue; but some are always unsettled.
SETTINGS = {"USERS_BATCH_SIZE": "50", "USERS_BATCH_TIMEOUT_MS": "2000"}
IN_HAND = 20
# Before and after the outage at least this many are acknowledged.
PROGRESS = 50
DEAD_LETTERS = ("raffle_dlq", "dead_letter_queue")


async def outlast_outage(place: StormServers, *, seconds: float, freezes: bool) -> str:
    """Freeze or kill PostgreSQL for this long; raises if the outage counts as a failure of messages.

    With RabbitMQ all sign-ups are acknowledged meanwhile; with PostgreSQL as the bus all are answered 503.
    """
    async with sign_up_fleet(place, SETTINGS) as here:
        outage = _Outage(place, here, seconds, freezes)
        await outage.come_and_go()
        began = monotonic_seconds()
        await here.settle()
        return f"{outage.report()}; quiet {monotonic_seconds() - began:.1f} s after the last one"


@dataclass
class _Outage:
    place: StormServers
    here: SignUpFleet
    seconds: float
    freezes: bool
    # Acknowledged and not written when the outage began; in the broker's queue when it ended.
    in_hand: int = 0
    in_queue: int = 0
    over: bool = False
    tag: str = field(default_factory=lambda: uuid4().hex[:8])
    numbers: Iterator[int] = field(default_factory=count)

    async def come_and_go(self) -> None:
        call = partial(self.here.callers.call, self._take, pause_seconds=CALLER_PAUSE_SECONDS)
        await all_of(self._lose_postgres(), *(call() for _ in range(CALLERS)))

    def report(self) -> str:
        answers = ", ".join(f"{times} x {what}" for what, times in self.here.callers.outage.answers.items())
        return (
            f"PostgreSQL {'frozen' if self.freezes else 'gone'} for {self.seconds:.0f} s, when {self.in_hand}"
            f" were acknowledged and not written; answers meanwhile: {answers}; at the end of it"
            f" {self.in_queue} waited in the broker's queue; all {len(self.here.ledger.acknowledged)}"
            " acknowledged are people, no dead letter, no retry counted"
        )

    async def _take(self) -> SignUp | None:
        return None if self.over else newcomer(next(self.numbers), self.tag)

    async def _lose_postgres(self) -> None:
        await self._until_more()
        self.in_hand = await until(self._in_hand)
        await self._be_without()
        await self._until_more()
        self.over = True

    async def _be_without(self) -> None:
        outage, postgres = self.here.callers.outage, self.place.postgres
        if self.freezes:
            postgres.pause()
        else:
            await postgres.kill()
        outage.lasts = True
        try:
            await asyncio.sleep(self.seconds)
            await until(lambda: outage.answers.total() >= CALLERS)
            expected = 503 if self.place.amqp_url is None else 200
            assert set(outage.answers) == {expected}, f"answers within the outage: {dict(outage.answers)}"
            if self.place.amqp_url is not None:
                await self._look_at_broker()
        finally:
            outage.lasts = False
            if self.freezes:
                postgres.resume()
            else:
                await postgres.start()

    async def _look_at_broker(self) -> None:
        """Wait until messages are in the queue, then check that none was retried or dead-lettered."""
        self.in_queue = await until(self._queue_depth)
        depths, retrying = await self.here.bus.depths(), await self.here.bus.retrying()
        astray = {name: depths[name] for name in DEAD_LETTERS} | dict(retrying)
        assert not any(astray.values()), f"the outage was counted against messages: {astray}"

    async def _queue_depth(self) -> int:
        return (await self.here.bus.depths())[SIGN_UP_QUEUE]

    async def _in_hand(self) -> int:
        """How many are acknowledged and not written; 0 if too few, or if none is written yet."""
        written = await self.here.written()
        waiting = len(self.here.ledger.acknowledged) - written
        return waiting if written and waiting >= IN_HAND else 0

    async def _until_more(self) -> None:
        acknowledged = self.here.ledger.acknowledged
        wanted = len(acknowledged) + PROGRESS
        await until(lambda: len(acknowledged) >= wanted)
