"""Use cases on figures. Each takes an open transaction and never commits."""

from collections.abc import Sequence
from functools import partial

import structlog
from prometheus_client import Counter

from catraca.domains.analytics import store
from catraca.domains.analytics.model import (
    Alert,
    AlertRule,
    Happening,
    by_hour,
    by_window,
    center_of,
    name_of,
    percent_failed,
)
from catraca.events import MatchesFailing
from catraca.platform.database import Db, after_commit, outbox

log = structlog.get_logger()

EVENTS_SEEN = Counter("catraca_analytics_events_total", "What happened to rides and searches.", ["event"])
FAILED_MATCHES = Counter(
    "catraca_failed_matches_no_drivers_total", "Searches that ended without a driver for the ride."
)


async def count_happenings(db: Db, happenings: Sequence[Happening], *, rule: AlertRule) -> None:
    """Add to the figures, and tell where searches fail. Not safe to repeat: the inbox absorbs repeats."""
    facts = [one.fact for one in happenings if one.fact is not None]
    alerts: list[Alert] = []
    if facts:
        await store.add_demand(db, by_hour(facts))
    if windows := by_window(facts, rule.window):
        alerts = await store.add_to_windows(db, windows, rule=rule)
    await outbox.record(db, *(_news_of(alert) for alert in alerts))
    after_commit(db, partial(_measure, happenings, alerts))


def _news_of(alert: Alert) -> MatchesFailing:
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


def _measure(happenings: Sequence[Happening], alerts: Sequence[Alert]) -> None:
    for one in happenings:
        EVENTS_SEEN.labels(one.key).inc()
        if one.fact is not None and one.fact.what == "failed":
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
