"""Clients that send requests at once, while Redis fails and recovers and an API is killed."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from catraca.platform.clock import now
from tests.storms.appointments.checks import Answered
from tests.storms.appointments.data import Act, Clinic, do, new_clients, open_clinic
from tests.storms.callers import Caller, JsonAnswer, together
from tests.storms.fleet import ApiProcess, StormFleet
from tests.storms.rides.accepts import WEATHERS, Weather, done

# Requests around a moment are sent this much earlier or later.
JITTER_SECONDS = (-0.1, 0.15)
# The first requests are answered within this time.
FIRST_SECONDS = 0.2
KILLED_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishap:
    """A failure during a burst: of Redis, of an API, of both or of none."""

    weather: Weather
    victim: ApiProcess | None = None
    # The API is killed after this many answers; 0: after `delay_seconds`.
    after_answers: int = 0
    delay_seconds: float = 0

    @classmethod
    def draw(cls, here: StormFleet, chance: random.Random, *, clients: int) -> "Mishap":
        return cls(
            weather=chance.choice(WEATHERS),
            victim=chance.choice(here.apis) if chance.random() < KILLED_SHARE else None,
            after_answers=chance.randrange(1, max(2, clients // 2)) if chance.random() < 0.5 else 0,
            delay_seconds=chance.uniform(0, FIRST_SECONDS),
        )


@dataclass
class Crowd:
    here: StormFleet
    chance: random.Random
    callers: Sequence[Caller]
    clients: Sequence[UUID]
    # The failures of the next bursts; later ones are random.
    mishaps: list[Mishap] = field(default_factory=list)
    # All requests with their answers.
    answered: list[Answered] = field(default_factory=list)
    slots: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    async def clinic(self, *, workers: int = 1, rooms: int = 0) -> Clinic:
        """A new clinic, and new clients: all clinics have the same hours, and a client is in one place."""
        self.clients = await new_clients(self.here.database, len(self.clients))
        return await open_clinic(self.callers[0], workers=workers, rooms=rooms)

    async def ask(self, act: Act, caller: Caller | None = None) -> JsonAnswer:
        answer = await do(caller or self.callers[0], act)
        self.answered.append((act, answer))
        return answer

    async def burst(self, acts: Sequence[Act], *, around: datetime | None = None) -> list[JsonAnswer]:
        """Send all requests at once, or around a moment, during a failure that is then repaired."""
        mishap = self.mishaps.pop(0) if self.mishaps else self.draw()
        await done(mishap.weather.before, self.here)
        asking = [
            asyncio.create_task(self._ask_in_time(act, caller, around))
            for act, caller in zip(acts, self.callers, strict=False)
        ]
        _, *answers = await together(self._break(mishap, asking), *asking)
        await done(mishap.weather.mend, self.here)
        await self.here.until_redis_is_back()
        self.seen[mishap.weather.name] += 1
        self.seen["an API killed amid"] += mishap.victim is not None
        return answers

    def draw(self) -> Mishap:
        return Mishap.draw(self.here, self.chance, clients=len(self.clients))

    async def _ask_in_time(self, act: Act, caller: Caller, around: datetime | None) -> JsonAnswer:
        if around is not None:
            await asyncio.sleep((around - now()).total_seconds() + self.chance.uniform(*JITTER_SECONDS))
        return await self.ask(act, caller)

    async def _break(self, mishap: Mishap, asking: Sequence[asyncio.Task[JsonAnswer]]) -> None:
        await asyncio.sleep(0 if mishap.after_answers else mishap.delay_seconds)
        while sum(task.done() for task in asking) < min(mishap.after_answers, len(asking)):
            left = [task for task in asking if not task.done()]
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if mishap.victim is not None:
            await mishap.victim.kill()
        await done(mishap.weather.amid, self.here)
        if mishap.victim is not None:
            await mishap.victim.start()

    def count(self, what: str, slots: int) -> None:
        self.slots[what] += slots
