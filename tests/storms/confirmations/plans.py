"""The random plan of one round: which process or server fails, and when."""

import random
from dataclasses import dataclass
from typing import Self

from tests.storms.fleet import ApiProcess, StormFleet
from tests.storms.rides.accepts import WEATHERS, Weather

BAD_WEATHER_SHARE = 0.5
BRIEF_SHARE = 0.4
AT_THE_END_SHARE = 0.6
PHONES_SHARE = 0.6
PHONES = 8
# The first requests are decided within this time.
FIRST_SECONDS = 0.15


async def _kill_postgres(here: StormFleet) -> None:
    await here.postgres.kill()
    await here.postgres.start()


POSTGRES_KILLED = Weather("PostgreSQL killed amid", amid=_kill_postgres)
# PostgreSQL fails more often than Redis, because it decides.
BAD_WEATHERS = (
    *(weather for weather in WEATHERS if weather.before or weather.amid),
    POSTGRES_KILLED,
    POSTGRES_KILLED,
    POSTGRES_KILLED,
)
CALM = Weather("nothing else broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    victim: ApiProcess
    # The API is killed after this many answers; 0: after `delay_seconds`.
    after_answers: int = 0
    delay_seconds: float = 0
    weather: Weather = CALM
    # This many other phones request the same ride again.
    phones: int = 0
    # The time to confirm is short; and the clients confirm around its end.
    brief: bool = False
    at_the_end: bool = False
    # The share of clients that send the fields of the ride again.
    repeating_share: float = 0.5

    @classmethod
    def draw(cls, here: StormFleet, chance: random.Random, *, clients: int) -> Self:
        brief = chance.random() < BRIEF_SHARE
        return cls(
            victim=chance.choice(here.apis),
            after_answers=chance.randrange(1, clients // 2) if chance.random() < 0.5 else 0,
            delay_seconds=chance.uniform(0, FIRST_SECONDS),
            weather=chance.choice(BAD_WEATHERS) if chance.random() < BAD_WEATHER_SHARE else CALM,
            phones=PHONES if not brief and chance.random() < PHONES_SHARE else 0,
            brief=brief,
            at_the_end=brief and chance.random() < AT_THE_END_SHARE,
            repeating_share=chance.choice((0.0, 0.5, 1.0)),
        )
