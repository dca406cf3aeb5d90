"""Two hundred clients book one slot, overlapping slots and adjacent slots: bookings never overlap.

`make test-all` runs a hundredth of it, `make prove` all; the result is a sentence with what was counted.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from catraca.platform.clock import monotonic_seconds
from tests.servers import until
from tests.storms.appointments.bursts import (
    want_adjacent,
    want_any_worker,
    want_expired_hold,
    want_one_slot,
    want_overlapping,
    want_two_places,
)
from tests.storms.appointments.changes import change_everything
from tests.storms.appointments.checks import AT_REST, DEADLOCKS, broken_by
from tests.storms.appointments.crowd import Crowd, Mishap
from tests.storms.appointments.data import new_clients
from tests.storms.callers import calling, crowd, request
from tests.storms.checks import failed_checks, listed
from tests.storms.fleet import StormFleet

CLIENTS: Final = 200
APIS: Final = 4
HOLD_SECONDS: Final = 1
SETTINGS: Final = {"CATRACA_HOLD_TTL": str(HOLD_SECONDS), "CATRACA_MAX_HOLDS": "3"}
RETRIED: Final = "catraca_database_retried_transactions_total"
AT_REST_SECONDS = 60


async def storm_appointments(
    here: StormFleet,
    *,
    rounds: int,
    seed: int,
    clients: int = CLIENTS,
    adjacent: int = CLIENTS,
    mishaps: Sequence[Mishap] = (),
) -> str:
    """Run every kind of burst `rounds` times, with the given failures first and random ones after them."""
    began, before = monotonic_seconds(), Counter(here.ledger.counts)
    people = await new_clients(here.database, clients)
    async with crowd(here.ports, here.ledger, clients) as callers:
        storm = Crowd(here, random.Random(seed), callers, people, list(mishaps))
        bursts = (
            want_one_slot,
            want_overlapping,
            partial(want_adjacent, slots=adjacent),
            want_two_places,
            want_any_worker,
            want_expired_hold,
            change_everything,
        )
        for _ in range(rounds):
            for burst in bursts:
                await burst(storm)
                await _judge(storm)
        retried = await _count_retried(here)
    deadlocks = await _settle(storm)
    seconds, counts = monotonic_seconds() - began, here.ledger.counts - before
    return (
        f"seed {seed}: {clients} clients, {len(here.apis)} APIs,"
        f" {storm.slots.total()} slots in {seconds:.0f} s ({listed(storm.slots)});"
        f" {listed(storm.seen)}; answers: {listed(counts)};"
        f" overlaps: none, deadlocks: {deadlocks}, transactions run again: {retried}"
    )


async def _judge(storm: Crowd) -> int:
    """Raise if a check failed or a deadlock happened; returns the number of deadlocks, 0."""
    async with storm.here.database.connection() as db:
        broken = await broken_by(db, storm.answered)
        deadlocks = await db.fetchval(DEADLOCKS)
    assert not broken, "\n".join(broken)
    assert deadlocks == 0, f"{deadlocks} deadlocks"
    return deadlocks


async def _count_retried(here: StormFleet) -> int:
    """Read from the metrics of running APIs; the database's deadlock counter also covers killed ones."""
    retried = 0
    for port in here.ports:
        async with calling([port]) as caller:
            metrics = (await caller.ask(request("GET", "/metrics"))).body.decode()
        lines = [line for line in metrics.splitlines() if line.startswith(RETRIED)]
        retried += sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)
    assert retried == 0, f"{retried} transactions were run again"
    return retried


async def _settle(storm: Crowd) -> int:
    """Wait until every hold has ended by itself, then check again."""

    async def is_at_rest() -> bool:
        async with storm.here.database.connection() as db:
            return not await failed_checks(db, AT_REST)

    await until(is_at_rest, seconds=AT_REST_SECONDS)
    return await _judge(storm)
