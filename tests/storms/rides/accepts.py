"""Many drivers accept one ride at once during failures of Redis; and drivers repeat their request."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catraca.platform.clock import monotonic_seconds
from tests.storms.callers import Caller, JsonAnswer, crowd, together
from tests.storms.fleet import StormFleet
from tests.storms.rides.data import Offered, offer_new_ride
from tests.storms.rides.ledger import code_of


@dataclass(frozen=True, slots=True)
class Weather:
    """A failure of Redis before or during a burst, and its repair."""

    name: str
    before: Callable[[StormFleet], object] | None = None
    amid: Callable[[StormFleet], object] | None = None
    mend: Callable[[StormFleet], object] | None = None


def _kill(here: StormFleet) -> None:
    here.redis.kill()


def _freeze(here: StormFleet) -> None:
    here.redis.freeze()


WEATHERS = (
    Weather("Redis up"),
    Weather("Redis killed before", before=_kill, mend=lambda here: here.redis.start()),
    Weather("Redis killed amid", amid=_kill, mend=lambda here: here.redis.start()),
    Weather("Redis frozen", before=_freeze, mend=lambda here: here.redis.thaw()),
    Weather("Redis frozen amid", amid=_freeze, mend=lambda here: here.redis.thaw()),
    Weather("Redis flushed amid", amid=lambda here: here.redis.command("FLUSHALL")),
)
COUNTED = (
    "SELECT (SELECT count(*) FROM ride_accept_attempts WHERE ride_id = $1) AS attempts,"
    " (SELECT count(*) FROM ride_accept_attempts WHERE ride_id = $1 AND status = 'SUCCESS') AS successes,"
    " count(*) FILTER (WHERE routing_key = 'ride.accepted') AS accepted,"
    " count(*) FILTER (WHERE routing_key = 'offer.canceled') AS canceled"
    " FROM (SELECT routing_key, aggregate_id FROM outbox"
    "   UNION ALL SELECT routing_key, aggregate_id FROM outbox_sent) AS events"
    " WHERE aggregate_id = $1 OR aggregate_id IN (SELECT id FROM ride_offers WHERE ride_id = $1)"
)


async def accept_at_once(
    here: StormFleet, *, drivers: int, rounds: int, weathers: Sequence[Weather] = WEATHERS
) -> str:
    """Under each failure: one driver wins, the others are refused, all attempts are recorded."""
    pool = await here.new_drivers(drivers)
    counts: Counter[str] = Counter()
    slowest_seconds = 0.0
    async with crowd(here.ports, here.ledger, drivers) as callers:
        for place, weather in enumerate(weathers):
            for number in range(rounds):
                offered = await offer_new_ride(callers[0], pool)
                began = monotonic_seconds()
                answers = await _burst(here, callers, offered, weather, waits=(number + place) % 2 == 1)
                slowest_seconds = max(slowest_seconds, monotonic_seconds() - began)
                winner = await _judge(here, offered, answers, weather)
                counts.update(f"{answer.status}" for answer in answers)
                # The winner is busy; a new driver replaces it.
                pool[winner] = (await here.new_drivers(1))[0]
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))
    names = ", ".join(weather.name for weather in weathers)
    return (
        f"{rounds} rounds of {drivers} drivers each with {names}: {statuses};"
        f" the slowest round took {slowest_seconds:.2f} s"
    )


async def _burst(
    here: StormFleet, callers: Sequence[Caller], offered: Offered, weather: Weather, *, waits: bool
) -> list[JsonAnswer]:
    """Send all attempts at once, or half of them after the first answer; the failure happens in between."""
    await done(weather.before, here)
    pairs = list(zip(callers, offered.tries, strict=True))
    half = len(pairs) // 2
    asking = [asyncio.create_task(caller.accept(tried)) for caller, tried in pairs[:half]]
    await (asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED) if waits else asyncio.sleep(0))
    await done(weather.amid, here)
    asking += [asyncio.create_task(caller.accept(tried)) for caller, tried in pairs[half:]]
    answers = await together(*asking)
    if weather.mend is not None:
        await done(weather.mend, here)
        await here.until_redis_is_back()
    return answers


async def done(act: Callable[[StormFleet], object] | None, here: StormFleet) -> None:
    """Run the failure or repair if there is one."""
    if act is not None and asyncio.iscoroutine(doing := act(here)):
        await doing


async def _judge(here: StormFleet, offered: Offered, answers: Sequence[JsonAnswer], weather: Weather) -> int:
    """Check the answers and the counts; returns the index of the winner's attempt."""
    codes = Counter(map(code_of, answers))
    count = len(offered.tries)
    assert codes == Counter(accepted=1, ride_already_accepted=count - 1), f"{weather.name}: {codes}"
    async with here.database.connection() as db:
        row = await db.fetchrow(COUNTED, offered.ride_id)
    assert row is not None
    wanted = {"attempts": count, "successes": 1, "accepted": 1, "canceled": count - 1}
    assert dict(row) == wanted, f"{weather.name}: {dict(row)}"
    (winner,) = (tried for tried in offered.tries if here.ledger.answers[tried].status == 200)
    return offered.tries.index(winner)


async def accept_again_and_again(here: StormFleet, *, times: int) -> str:
    """Two drivers send their own key `times` times at once: two attempts, and one answer for each key."""
    async with crowd(here.ports, here.ledger, 2 * times) as callers:
        offered = await offer_new_ride(callers[0], await here.new_drivers(2))
        # In pairs of callers, so that both drivers call both processes.
        tries = [offered.tries[number // 2 % 2] for number in range(len(callers))]
        # The ledger fails on two different answers for one key.
        answers = await together(
            *(caller.accept(tried) for caller, tried in zip(callers, tries, strict=True))
        )
    counts = Counter(map(code_of, answers))
    assert counts == Counter(accepted=times, ride_already_accepted=times), counts
    return f"two drivers with one key each, both {times} times at once: {dict(counts)}"
