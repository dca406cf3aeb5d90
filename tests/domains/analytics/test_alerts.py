"""Alerts: once per region and window with too many failed searches."""

import asyncio
import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from catraca.domains.analytics.model import cell_of, center_of, name_of, region_of
from catraca.events import MatchingTimeout
from catraca.platform.database import Database
from catraca.platform.event import Event
from tests.domains.analytics.counts import RULE, count, count_and_roll_back, published, rows
from tests.domains.analytics.example_events import (
    FAR,
    HERE,
    NEARBY,
    NOON,
    failed,
    matched,
    requested,
)

HOUR = timedelta(hours=1)


def ended(well: int, badly: int, **where: Any) -> list[Event]:
    return [*(matched(**where) for _ in range(well)), *(failed(**where) for _ in range(badly))]


async def test_alert_is_published_with_region_window_and_counts(figures: Database) -> None:
    with capture_logs() as lines:
        await count(figures, *ended(6, 3), failed(pickup=NEARBY, kind=MatchingTimeout))
    region = region_of(cell_of(HERE))
    ((alert),) = await rows(figures, "SELECT * FROM demand_alerts")
    (event,) = await published(figures)
    center = center_of(region)
    assert event == {
        "event_type": "analytics.matches_failing",
        "timestamp": event["timestamp"],
        "alert_id": str(alert["id"]),
        "region": name_of(region),
        "center": {"lat": center.lat, "lng": center.lng},
        "window_starts_at": "2031-05-30T12:00:00Z",
        "window_ends_at": "2031-05-30T13:00:00Z",
        "matched": 6,
        "failed": 4,
        "failed_percent": 40.0,
    }
    (line,) = [line for line in lines if line["event"] == "matches_failing"]
    assert line["log_level"] == "warning"
    assert (line["region"], line["matched"], line["failed"]) == (name_of(region), 6, 4)


@pytest.mark.parametrize(
    ("well", "badly", "is_published"),
    [
        (9, 1, False),
        (8, 2, True),
        (17, 2, True),
        (18, 2, False),
        (0, 9, False),
        (0, 10, True),
        (10, 0, False),
    ],
)
async def test_alert_is_due_above_the_limit_and_minimum(
    figures: Database, well: int, badly: int, is_published: bool
) -> None:
    """More than 10 % of at least 10 searches: 1 of 10 is not more, 9 are too few."""
    await count(figures, *ended(well, badly))
    assert (len(await published(figures)) == 1) is is_published


async def test_requests_do_not_count_as_ended_searches(figures: Database) -> None:
    await count(figures, *ended(0, 9), *(requested() for _ in range(50)))
    assert await published(figures) == []


async def test_alert_is_published_once_per_region_and_window(figures: Database) -> None:
    for _ in range(3):
        await count(figures, *ended(0, 10))
    assert len(await published(figures)) == 1
    # The rate falls below the limit and rises again: no second alert in this window.
    await count(figures, *ended(500, 0))
    await count(figures, *ended(0, 500))
    assert len(await published(figures)) == 1
    await count(figures, *ended(0, 10, at=NOON + HOUR))
    await count(figures, *ended(0, 10, pickup=FAR))
    assert [(event["region"], event["window_starts_at"]) for event in await published(figures)] == [
        (name_of(region_of(cell_of(HERE))), "2031-05-30T12:00:00Z"),
        (name_of(region_of(cell_of(HERE))), "2031-05-30T13:00:00Z"),
        (name_of(region_of(cell_of(FAR))), "2031-05-30T12:00:00Z"),
    ]


async def test_constraint_refuses_a_second_alert_of_a_window(figures: Database) -> None:
    await count(figures, *ended(0, 10))
    with pytest.raises(asyncpg.UniqueViolationError, match="one_alert_a_region_and_window"):
        async with figures.connection() as db:
            await db.execute(
                "INSERT INTO demand_alerts (id, region, starts_at, ends_at, matched, failed)"
                " SELECT gen_random_uuid(), region, starts_at, ends_at, matched, failed FROM demand_alerts"
            )


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_counts_publish_one_alert(figures: Database, seed: int) -> None:
    """Ten concurrent transactions with one failure each: only the sum is above the limit."""
    chance = random.Random(seed)
    events = ended(0, 10)
    chance.shuffle(events)
    await asyncio.gather(*(count(figures, event) for event in events))
    (event,) = await published(figures)
    assert (event["matched"], event["failed"]) == (0, 10)


@pytest.mark.parametrize("seconds", [1, 90, 420, 5 * 3600, 7 * 86400])
async def test_windows_can_have_any_length(figures: Database, seconds: int) -> None:
    rule = replace(RULE, window=timedelta(seconds=seconds))
    start = datetime.fromtimestamp(NOON.timestamp() // seconds * seconds, NOON.tzinfo)
    within, after = start + rule.window - timedelta(microseconds=1), start + rule.window
    # Nine failures in one window and one in the next are not added.
    await count(figures, *ended(0, 9, at=within), *ended(0, 1, at=after), rule=rule)
    assert await published(figures) == []
    await count(figures, *ended(0, 1, at=start), rule=rule)
    (event,) = await published(figures)
    assert datetime.fromisoformat(event["window_starts_at"]) == start
    assert datetime.fromisoformat(event["window_ends_at"]) == after


async def test_windows_of_another_length_start_at_zero(figures: Database) -> None:
    """Counts of windows with different lengths are not added."""
    await count(figures, *ended(0, 9))
    await count(figures, *ended(0, 9), rule=replace(RULE, window=timedelta(minutes=30)))
    assert await published(figures) == []


async def test_rolled_back_alert_is_not_published(figures: Database) -> None:
    with capture_logs() as lines:
        await count_and_roll_back(figures, *ended(0, 10))
    assert await published(figures) == []
    assert lines == []


async def test_limits_of_0_and_100_percent_work(figures: Database) -> None:
    await count(figures, *ended(0, 10), rule=replace(RULE, percent=100))
    assert await published(figures) == []
    await count(figures, *ended(99, 1), rule=replace(RULE, percent=0))
    assert len(await published(figures)) == 1
