"""Demand by hour and cell in the database."""

import asyncio
import random
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from catraca.domains.analytics import store
from catraca.domains.analytics.model import RETENTION, by_hour, cell_of, fact_of, start_of
from catraca.events import MatchingTimeout, NoDriversAvailable, RideStarted
from catraca.events.catalogue import example_of
from catraca.platform.database import Database
from catraca.platform.database.transactions import RETRIED_TRANSACTIONS
from catraca.platform.event import Event
from tests.domains.analytics.counts import count, count_and_roll_back, demand, rows
from tests.domains.analytics.example_events import (
    FAR,
    HERE,
    NEARBY,
    NOON,
    failed,
    matched,
    reassigning,
    requested,
)

HOUR = timedelta(hours=1)


async def test_events_are_counted_by_hour_and_cell(figures: Database) -> None:
    await count(figures, requested(), requested(), reassigning(), failed(), failed(kind=MatchingTimeout))
    await count(figures, matched(waited=timedelta(seconds=40)), matched(waited=timedelta(seconds=2.5)))
    await count(figures, requested(pickup=NEARBY), requested(at=NOON + HOUR))
    assert await demand(figures) == [
        {
            "hour": NOON, "cell": cell_of(HERE), "requests": 2, "reassigned": 1, "matched": 2, "failed": 2,
            "match_sum_ms": 42_500, "match_max_ms": 40_000,
        },
        {
            "hour": NOON, "cell": cell_of(NEARBY), "requests": 1, "reassigned": 0, "matched": 0, "failed": 0,
            "match_sum_ms": 0, "match_max_ms": 0,
        },
        {
            "hour": NOON + HOUR, "cell": cell_of(HERE), "requests": 1, "reassigned": 0, "matched": 0,
            "failed": 0, "match_sum_ms": 0, "match_max_ms": 0,
        },
    ]  # fmt: skip


def some_event(chance: random.Random) -> Event:
    fields = {
        "pickup": chance.choice([HERE, NEARBY, FAR]),
        "at": NOON + timedelta(minutes=chance.randrange(180)),
    }
    match chance.randrange(4):
        case 0:
            return requested(**fields)
        case 1:
            return matched(**fields, waited=timedelta(milliseconds=chance.randrange(300_000)))
        case 2:
            return failed(**fields, kind=chance.choice([MatchingTimeout, NoDriversAvailable]))
        case _:
            return reassigning(**fields)


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_batches_sum_up_without_deadlocks(figures: Database, seed: int) -> None:
    chance = random.Random(seed)
    events = [some_event(chance) for _ in range(600)]
    retried = RETRIED_TRANSACTIONS._value.get()
    batches: list[list[Event]] = []
    left = list(events)
    while left:
        size = chance.randrange(1, 60)
        batches.append(left[:size])
        left = left[size:]
    await asyncio.gather(*(count(figures, *batch) for batch in batches))
    facts = [fact for event in events if (fact := fact_of(event)) is not None]
    expected = [
        {"hour": hour, "cell": cell} | {name: getattr(sums, name) for name in type(sums).__slots__}
        for (hour, cell), sums in by_hour(facts).items()
    ]
    assert await demand(figures) == expected
    assert RETRIED_TRANSACTIONS._value.get() == retried, "rows were not locked in one order"
    windows = await rows(figures, "SELECT sum(matched) AS matched, sum(failed) AS failed FROM match_windows")
    assert windows == [{kind: sum(fact.kind == kind for fact in facts) for kind in ("matched", "failed")}]


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_metrics_count_events_by_key_and_failures(figures: Database) -> None:
    def figures_now() -> list[float]:
        by_kind = [
            metric("catraca_analytics_events_total", event=key)
            for key in ("ride.started", "matching.timeout", "ride.matched")
        ]
        return [*by_kind, metric("catraca_failed_matches_no_drivers_total")]

    before = figures_now()
    started = example_of(RideStarted)
    await count(figures, started, started, matched(), failed(kind=MatchingTimeout), failed())
    after = figures_now()
    assert [new - old for new, old in zip(after, before, strict=True)] == [2, 1, 1, 2]
    assert len(await demand(figures)) == 1


async def test_rolled_back_events_change_no_metric(figures: Database) -> None:
    before = metric("catraca_failed_matches_no_drivers_total")
    await count_and_roll_back(figures, failed())
    assert metric("catraca_failed_matches_no_drivers_total") == before
    assert await demand(figures) == []


async def test_demand_is_pruned_after_its_retention(figures: Database) -> None:
    async with figures.connection() as db:
        now = await db.fetchval("SELECT clock_timestamp()")
    # The hour and the window of `old` ended before the limit, those of `young` after it.
    old, young = now - RETENTION - 2 * HOUR, now - RETENTION + 2 * HOUR
    for moment in (old, young):
        await count(figures, *(failed(at=moment) for _ in range(10)))
    assert len(await rows(figures, "SELECT FROM demand_alerts")) == 2
    assert [await figures.run(prune) for prune in (store.prune_demand, store.prune_windows)] == [1, 1]
    assert [await figures.run(prune) for prune in (store.prune_demand, store.prune_windows)] == [0, 0]
    for table, moment in (("demand", "hour"), ("match_windows", "starts_at"), ("demand_alerts", "starts_at")):
        kept = await rows(figures, f"SELECT {moment} AS began FROM {table}")
        assert kept == [{"began": start_of(young, HOUR)}], table
