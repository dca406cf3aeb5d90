"""Use cases on analytics. Each takes an open transaction and never commits."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

import structlog
from prometheus_client import Counter

from catraca.domains.analytics import store
from catraca.domains.analytics.model import (
    Alert,
    AlertRule,
    Cell,
    CountedEvent,
    Demand,
    DemandFilter,
    by_hour,
    by_window,
    center_of,
    name_of,
    percent_failed,
)
from catraca.events import MatchesFailing
from catraca.platform.database import Db, outbox

log = structlog.get_logger()

EVENTS_SEEN = Counter("catraca_analytics_events_total", "Events of rides and searches.", ["event"])
FAILED_MATCHES = Counter(
    "catraca_failed_matches_no_drivers_total", "Searches that ended without a driver for the ride."
)


async def count_events(db: Db, events: Sequence[CountedEvent], *, rule: AlertRule) -> None:
    """Add events to the counts and publish alerts. Not safe to repeat: the inbox drops repeats."""
    facts = [event.fact for event in events if event.fact is not None]
    alerts: list[Alert] = []
    if facts:
        await store.add_demand(db, by_hour(facts))
    if windows := by_window(facts, rule.window):
        alerts = await store.add_to_windows(db, windows, rule=rule)
    await outbox.record(db, *(_event_of(alert) for alert in alerts))
    db.after_commit(partial(_measure, events, alerts))


async def find_demand(
    db: Db, wanted: DemandFilter, *, before: tuple[datetime, Cell] | None, limit: int
) -> Sequence[Demand]:
    """The latest hours first, starting behind `before`."""
    return await store.find_demand(db, wanted, before=before, limit=limit)


async def find_alerts(db: Db, *, before: UUID | None, limit: int) -> Sequence[Alert]:
    """The newest first, starting behind `before`."""
    return await store.find_alerts(db, before=before, limit=limit)


def _event_of(alert: Alert) -> MatchesFailing:
    window = alert.window
    return MatchesFailing(
        alert_id=alert.id,
        region=name_of(window.region),
        center=center_of(window.region),
        window_starts_at=window.starts_at,
        window_ends_at=window.ends_at,
        matched=alert.matched,
        failed=alert.failed,
        failed_percent=percent_failed(matched=alert.matched, failed=alert.failed) or 0,
    )


def _measure(events: Sequence[CountedEvent], alerts: Sequence[Alert]) -> None:
    for event in events:
        EVENTS_SEEN.labels(event.key).inc()
        if event.fact is not None and event.fact.kind == "failed":
            FAILED_MATCHES.inc()
    for alert in alerts:
        log.warning(
            "matches_failing",
            alert_id=alert.id,
            region=name_of(alert.window.region),
            window_ends_at=alert.window.ends_at,
            matched=alert.matched,
            failed=alert.failed,
        )
