"""Demand in the database: each event counts once, in its hour and cell, in any order and any company."""

import asyncio
import random
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from catraca.domains.analytics import jobs
from catraca.domains.analytics.model import RETENTION, by_hour, cell_of, fact_of, start_of
from catraca.events import MatchingTimeout, NoDriversAvailable, RideStarted
from catraca.events.catalogue import example_of
from catraca.platform.database import Database
from catraca.platform.database.transactions import RETRIED_TRANSACTIONS
from catraca.platform.event import Event
from tests.domains.analytics.counting import count, count_in_vain, demand, rows
from tests.domains.analytics.news import FAR, HERE, NEARBY, NOON, failed, matched, reassigning, requested

HOUR = timedelta(hours=1)


async def test_an_hour_and_a_cell_have_their_figures(figures: Database) -> None:
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
    told = {
        "pickup": chance.choice([HERE, NEARBY, FAR]),
        "at": NOON + timedelta(minutes=chance.randrange(180)),
    }
    match chance.randrange(4):
        case 0:
            return requested(**told)
        case 1:
            return matched(**told, waited=timedelta(milliseconds=chance.randrange(300_000)))
        case 2:
            return failed(**told, kind=chance.choice([MatchingTimeout, NoDriversAvailable]))
        case _:
            return reassigning(**told)


@pytest.mark.parametrize("seed", range(3))
async def test_batches_of_any_size_and_order_side_by_side_sum_up_and_never_wait_in_a_circle(
    figures: Database, seed: int
) -> None:
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
    assert RETRIED_TRANSACTIONS._value.get() == retried, "rows were not taken in one order"
    windows = await rows(figures, "SELECT sum(matched) AS matched, sum(failed) AS failed FROM match_windows")
    assert windows == [{what: sum(fact.kind == what for fact in facts) for what in ("matched", "failed")}]


def told(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_every_event_is_told_by_its_kind_and_failures_once_more(figures: Database) -> None:
    def figures_now() -> list[float]:
        by_kind = [
            told("catraca_analytics_events_total", event=key)
            for key in ("ride.started", "matching.timeout", "ride.matched")
        ]
        return [*by_kind, told("catraca_failed_matches_no_drivers_total")]

    before = figures_now()
    started = example_of(RideStarted)
    await count(figures, started, started, matched(), failed(kind=MatchingTimeout), failed())
    after = figures_now()
    assert [new - old for new, old in zip(after, before, strict=True)] == [2, 1, 1, 2]
    assert len(await demand(figures)) == 1


async def test_what_is_undone_is_not_told_either(figures: Database) -> None:
    before = told("catraca_failed_matches_no_drivers_total")
    await count_in_vain(figures, failed())
    assert told("catraca_failed_matches_no_drivers_total") == before
    assert await demand(figures) == []


async def test_figures_go_when_nobody_compares_with_them_any_more(figures: Database) -> None:
    async with figures.connection() as db:
        now = await db.fetchval("SELECT clock_timestamp()")
    # Its window and its hour have ended before, and those of the other have not.
    old, young = now - RETENTION - 2 * HOUR, now - RETENTION + 2 * HOUR
    for moment in (old, young):
        await count(figures, *(failed(at=moment) for _ in range(10)))
    assert len(await rows(figures, "SELECT FROM demand_alerts")) == 2
    assert [await figures.run(prune) for prune in (jobs.prune_demand, jobs.prune_windows)] == [1, 1]
    assert [await figures.run(prune) for prune in (jobs.prune_demand, jobs.prune_windows)] == [0, 0]
    for table, moment in (("demand", "hour"), ("match_windows", "starts_at"), ("demand_alerts", "starts_at")):
        kept = await rows(figures, f"SELECT {moment} AS began FROM {table}")
        assert kept == [{"began": start_of(young, HOUR)}], table
