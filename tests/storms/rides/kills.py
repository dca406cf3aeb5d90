"""Processes die while drivers accept: at random, and exactly before and after the COMMIT."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from tests.storms.callers import accept_request, calling, crowd, together
from tests.storms.commit_gate import CommitGate, Window
from tests.storms.fleet import ApiProcess, StormFleet
from tests.storms.rides.data import offer_new_ride
from tests.storms.rides.ledger import code_of, expect

FIRST_SECONDS = 0.03
# Where the process is killed, and whether another driver then sends first.
DEATHS: tuple[tuple[Window, bool], ...] = (("before", True), ("after", True), ("before", False))


class Mortal(Protocol):
    async def kill(self) -> None: ...
    async def start(self) -> None: ...


async def kill_amid_bursts(here: StormFleet, *, drivers: int, rounds: int, seed: int) -> str:
    """Kill an API during each burst, PostgreSQL during the last; callers repeat until they are answered."""
    chance = random.Random(seed)
    before = Counter(here.ledger.counts)
    for number in range(rounds):
        victim = here.postgres if number == rounds - 1 else here.apis[number % 2]
        # Killed after some answers, or within the time in which the first attempts are decided.
        after = chance.randrange(1, drivers // 4) if chance.random() < 0.5 else 0
        await _burst_without(
            here, victim, drivers, after_answers=after, delay_seconds=chance.uniform(0, FIRST_SECONDS)
        )
    counts = here.ledger.counts - before
    answers = ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
    return (
        f"{rounds} rounds of {drivers} drivers, PostgreSQL killed amid the last, an API amid the others:"
        f" one winner each; answers: {answers}"
    )


async def _burst_without(
    here: StormFleet, victim: Mortal, drivers: int, *, after_answers: int, delay_seconds: float
) -> None:
    """Half of the drivers send before the kill, and half while the victim starts again."""
    async with crowd(here.ports, here.ledger, drivers) as callers:
        offered = await offer_new_ride(callers[0], await here.new_drivers(drivers))
        pairs = list(zip(callers, offered.tries, strict=True))
        half = drivers // 2
        asking = [asyncio.create_task(caller.accept(tried)) for caller, tried in pairs[:half]]
        await asyncio.sleep(delay_seconds)
        while sum(task.done() for task in asking) < after_answers:
            await asyncio.wait([task for task in asking if not task.done()], return_when="FIRST_COMPLETED")
        await victim.kill()
        await together(victim.start(), *asking, *(caller.accept(tried) for caller, tried in pairs[half:]))
        # Again with the same keys: every answer must stay the same.
        answers = await together(*(caller.accept(tried) for caller, tried in pairs))
    codes = Counter(map(code_of, answers))
    assert codes == Counter(accepted=1, ride_already_accepted=drivers - 1), codes


async def die_around_commit(
    here: StormFleet, api: ApiProcess, gate: CommitGate, deaths: Sequence[tuple[Window, bool]] = DEATHS
) -> str:
    """Killed before COMMIT: no effect. Killed after it: all effects, although no answer was sent."""
    for number, (window, others_first) in enumerate(deaths):
        if number:
            await api.start()
        await _die_in(here, api, gate, window, others_first=others_first)
    return "killed before and after the COMMIT: all answers match the database"


async def _die_in(
    here: StormFleet, api: ApiProcess, gate: CommitGate, window: Window, *, others_first: bool
) -> None:
    async with calling(here.ports, here.ledger) as caller, calling([api.port]) as victim:
        offered = await offer_new_ride(caller, await here.new_drivers(2))
        ours, other = offered.tries
        stop = gate.stop_commit(window, of=ours.key.encode())
        asking = asyncio.create_task(victim.ask_once(accept_request(ours)))
        await stop.reached_by(asking)
        await api.kill()
        stop.lose()
        assert await asking is None, "the killed API answered"
        winner = other if others_first and window == "before" else ours
        for tried in (other, ours) if others_first else (ours, other):
            who = f"{window} the COMMIT, {'the first driver' if tried is ours else 'the other'}"
            code = "accepted" if tried is winner else "ride_already_accepted"
            expect(code, await caller.accept(tried), who=who)
