"""Answered attempts are sent again many times: the same answers, and no effect."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from catraca.platform.clock import monotonic_seconds
from catraca.roles.runner import all_of
from tests.storms.callers import Caller, crowd, together, token_of
from tests.storms.fleet import StormFleet
from tests.storms.rides.data import Offered, act, offer_new_ride, reject
from tests.storms.rides.ledger import Try, expect

RIDES = 12
DRIVERS = 10
CALLERS = 32
COUNTED = (
    "SELECT (SELECT count(*) FROM ride_accept_attempts) AS attempts,"
    " (SELECT count(*) FROM ride_events) AS steps,"
    # `ride.matched` follows later, when the dispatcher has handled the acceptance.
    " (SELECT count(*) FROM outbox WHERE routing_key <> 'ride.matched')"
    "   + (SELECT count(*) FROM outbox_sent WHERE routing_key <> 'ride.matched') AS events"
)


async def replay(here: StormFleet, *, replays: int) -> str:
    """Repeat half at once, and half after the rides have moved on and Redis was flushed."""
    async with crowd(here.ports, here.ledger, CALLERS) as callers:
        rides = [await _decided(here, callers) for _ in range(RIDES)]
        tries = cycle(tried for ride in rides for tried in ride.tries)
        began = monotonic_seconds()
        await _repeat(here, callers, islice(tries, replays // 2))
        for number, ride in enumerate(rides):
            await _move_on(here, callers[0], ride, number)
        await here.redis.command("FLUSHALL")
        await _repeat(here, callers, islice(tries, replays - replays // 2))
        seconds = monotonic_seconds() - began
    return (
        f"{replays} replays of the attempts of {RIDES} winners and {RIDES * (DRIVERS + 1)} others:"
        f" every answer as the first, no new attempt, no event; {replays / seconds:.0f} a second"
    )


async def _decided(here: StormFleet, callers: list[Caller]) -> Offered:
    """A ride with a winner, losers, a driver who refused before and one without an offer."""
    fickle_id, stranger_id, *others = await here.new_drivers(DRIVERS + 2)
    offered = await offer_new_ride(callers[0], [fickle_id, *others])
    fickle, *tries = offered.tries
    refusal = await reject(callers[0], fickle)
    assert refusal.status == 200, refusal.body
    expect("ride_cannot_be_accepted", await callers[0].accept(fickle))
    stranger = Try(offered.ride_id, stranger_id, None)
    expect("offer_not_received", await callers[0].accept(stranger))
    await together(*(caller.accept(tried) for caller, tried in zip(callers, tries, strict=False)))
    return replace(offered, tries=[fickle, stranger, *tries])


async def _repeat(here: StormFleet, callers: list[Caller], tries: Iterator[Try]) -> None:
    """Send attempts again; the ledger compares with their first answers."""
    counts = await _counts(here)

    async def repeat(caller: Caller) -> None:
        for tried in tries:
            await caller.accept(tried)

    await all_of(*(repeat(caller) for caller in callers))
    assert await _counts(here) == counts


async def _counts(here: StormFleet) -> dict[str, Any]:
    async with here.database.connection() as db:
        row = await db.fetchrow(COUNTED)
    assert row is not None
    return dict(row)


async def _move_on(here: StormFleet, caller: Caller, ride: Offered, number: int) -> None:
    """In turn: the driver gives the ride up, the passenger cancels, the driver arrives."""
    (winner,) = (tried.driver_id for tried in ride.tries if here.ledger.answers[tried].status == 200)
    driver, passenger = token_of("driver", winner), token_of("passenger", ride.passenger_id)
    moves = (
        ("cancel", driver, {"reason": "too_far"}),
        ("cancel", passenger, {"reason": "changed_plans"}),
        ("arrive", driver, {}),
    )
    verb, token, body = moves[number % len(moves)]
    answer = await act(caller, ride.ride_id, verb, token=token, **body)
    assert answer.status == 200, answer.body
