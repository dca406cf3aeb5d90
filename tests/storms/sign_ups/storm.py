"""Sign-ups while the ingesters are killed every few seconds, and PostgreSQL now and then.

`make test-all` runs a hundredth, `make prove` all of it; the result is a sentence with what was counted.
"""

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import asyncpg

from catraca.platform.clock import monotonic_seconds
from catraca.roles.runner import all_of
from tests.platform.bus.breakable import Postgres
from tests.servers import until
from tests.storms.servers import StormServers
from tests.storms.sign_ups.checks import read_outcome
from tests.storms.sign_ups.fleet import INGESTERS, OTHERS, SignUpFleet, sign_up_fleet
from tests.storms.sign_ups.ledger import Poison, SignUp, plan

# The share of kills of other processes than ingesters.
OTHERS_SHARE = 0.2
# The share of sign-ups sent during the crash loop, before any is written.
IN_CRASH_LOOP_SHARE = 0.2
# Backends that newly wait for the table lock. On the PostgreSQL bus only after the messages of the killed
# ingesters were claimed again, for which their leases must have expired; if more messages wait than all
# ingesters can hold, other messages are claimed meanwhile.
NEW_WRITERS = (
    "SELECT array_agg(pid) FROM pg_locks"
    " WHERE relation = 'sign_ups'::regclass AND NOT granted AND pid <> ALL ($1::int[])"
    "   AND (SELECT $2 <= coalesce(max(deliveries), $2) OR count(*) > $3"
    "        FROM bus_messages WHERE queue = 'raffle_queue')"
)
NEW_WRITERS_SECONDS = 30
HELD_BY_ALL = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    sign_ups: int = 100_000
    # The random pause between two kills.
    kill_pause_seconds: tuple[float, float] = (1, 3)
    kills_at_least: int = 5
    # Before that, both ingesters are killed this many times in a row with the same sign-ups unsettled.
    crash_loop: int = 6
    postgres_restarts: int = 2
    callers: int = 32
    # Each caller's pause between two sign-ups.
    caller_pause_seconds: float = 0
    settings: Mapping[str, str] = field(default_factory=dict)


async def storm_sign_ups(place: StormServers, size: Size, *, seed: int) -> str:
    """Run one storm; raises AssertionError when a check fails."""
    async with sign_up_fleet(place, size.settings) as here:
        began = monotonic_seconds()
        wanted, chance = plan(size.sign_ups, seed), random.Random(seed)
        await _Storm(place.postgres, size, here, chance, wanted).blow()
        fed = monotonic_seconds()
        await here.settle()
        return await _report(here, size, seed, fed - began, monotonic_seconds() - fed)


@dataclass
class _Storm:
    postgres: Postgres
    size: Size
    here: SignUpFleet
    chance: random.Random
    wanted: Sequence[SignUp | Poison]
    taken: int = 0
    over: bool = False
    looped: asyncio.Event = field(default_factory=asyncio.Event)

    async def blow(self) -> None:
        await all_of(self._feed(), self._kill_processes(), self._restart_postgres(), self._watch())

    async def _feed(self) -> None:
        call = partial(self.here.callers.call, self._take, pause_seconds=self.size.caller_pause_seconds)
        await all_of(*(call() for _ in range(self.size.callers)))
        self.over = True

    async def _take(self) -> SignUp | Poison | None:
        if self.taken >= len(self.wanted) * IN_CRASH_LOOP_SHARE:
            await self.looped.wait()
        if self.taken == len(self.wanted):
            return None
        self.taken += 1
        return self.wanted[self.taken - 1]

    async def _kill_processes(self) -> None:
        await self._crash_loop()
        wanted = self.here.killed.total() + self.size.kills_at_least
        while not self.over or self.here.killed.total() < wanted:
            await asyncio.sleep(self.chance.uniform(*self.size.kill_pause_seconds))
            is_other = self.chance.random() < OTHERS_SHARE
            await self.here.kill(self.chance.choice(OTHERS if is_other else INGESTERS))

    async def _crash_loop(self) -> None:
        """Kill the ingesters while a table lock keeps them from writing: each kill counts as a delivery."""
        url = self.here.fleet.environment["CATRACA_DATABASE_URL"]
        # Two connections: a query that times out must not release the lock.
        db, looking = await asyncpg.connect(url), await asyncpg.connect(url)
        seen: list[int] = []
        try:
            async with db.transaction():
                await db.execute("LOCK TABLE sign_ups IN EXCLUSIVE MODE")
                for number in range(1, self.size.crash_loop + 1):
                    with suppress(TimeoutError):  # if no sign-up comes back, the checks fail
                        seen += await until(
                            partial(looking.fetchval, NEW_WRITERS, seen, number, HELD_BY_ALL),
                            seconds=NEW_WRITERS_SECONDS,
                        )
                    await all_of(*(self.here.kill(place) for place in INGESTERS))
        finally:
            await db.close()
            await looking.close()
        self.looped.set()

    async def _restart_postgres(self) -> None:
        """Kill and start PostgreSQL, each time after another part of the sign-ups was sent."""
        for number in range(1, self.size.postgres_restarts + 1):
            await self._until_taken(len(self.wanted) * number // (self.size.postgres_restarts + 1))
            await self.postgres.kill()
            await self.postgres.start()

    async def _until_taken(self, wanted: int) -> None:
        """Wait without a limit: `_watch` detects a lack of progress."""
        await until(lambda: self.taken >= wanted, seconds=math.inf)

    async def _watch(self) -> None:
        """Raise if the callers make no progress for too long."""

        async def is_over() -> bool:
            return self.over

        async def how_far() -> tuple[int, int]:
            return self.taken, self.here.killed.total()

        async def what_is_wrong() -> list[str]:
            return [f"answers so far: {dict(self.here.ledger.answers)}"]

        await self.here.wait_for(is_over, how_far, what_is_wrong)


async def _report(here: SignUpFleet, size: Size, seed: int, fed_seconds: float, quiet_seconds: float) -> str:
    async with here.fleet.database.connection() as db:
        outcome = await read_outcome(db)
    ledger = here.ledger
    answers = ", ".join(f"{count} x {what}" for what, count in ledger.answers.most_common())
    killed = ", ".join(f"{role} {count} x" for role, count in here.killed.most_common())
    users, rejected = (
        len(ledger.acknowledged.keys() & there.keys()) for there in (outcome.users, outcome.rejected)
    )
    there = len(ledger.unanswered.keys() & (outcome.users.keys() | outcome.rejected.keys()))
    return (
        f"seed {seed}: {size.sign_ups} asked for within {fed_seconds:.1f} s"
        f" ({size.sign_ups / fed_seconds:.0f} a second), all over HTTP but the poison; answers: {answers};"
        f" killed: {killed}; PostgreSQL killed {size.postgres_restarts} x;"
        f" {len(ledger.acknowledged)} sign-ups and {len(ledger.poison)} poisonous messages acknowledged ="
        f" {users} people + {rejected} rejected + {len(outcome.letters)} dead letters;"
        f" of {len(ledger.unanswered)} without an answer {there} are there;"
        f" quiet {quiet_seconds:.1f} s after the last one"
    )
