"""Statements on analytics. Rows are locked in the order of their keys, which prevents deadlocks."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from catraca.domains.analytics.model import (
    RETENTION,
    Alert,
    AlertRule,
    Cell,
    Counts,
    Demand,
    DemandFilter,
    Region,
    Window,
)
from catraca.platform.database import Db, Row
from catraca.platform.database.conditions import Conditions
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.database.retention import prune_rows

COUNTS = "requests, reassigned, matched, failed, match_sum_ms, match_max_ms"
ALERT = "id, region, starts_at, ends_at, matched, failed, at"


async def add_demand(db: Db, sums: Mapping[tuple[datetime, Cell], Counts]) -> None:
    counts = sums.values()
    await db.execute(
        f"INSERT INTO demand AS d (hour, cell, {COUNTS})"  # noqa: S608 - our own words
        " SELECT * FROM unnest($1::timestamptz[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::int[],"
        f"   $7::bigint[], $8::bigint[]) AS more (hour, cell, {COUNTS})"
        " ORDER BY hour, cell"
        " ON CONFLICT (hour, cell) DO UPDATE SET"
        "   requests = d.requests + EXCLUDED.requests, reassigned = d.reassigned + EXCLUDED.reassigned,"
        "   matched = d.matched + EXCLUDED.matched, failed = d.failed + EXCLUDED.failed,"
        "   match_sum_ms = d.match_sum_ms + EXCLUDED.match_sum_ms,"
        "   match_max_ms = greatest(d.match_max_ms, EXCLUDED.match_max_ms)",
        [hour for hour, _ in sums],
        [cell for _, cell in sums],
        [count.requests for count in counts],
        [count.reassigned for count in counts],
        [count.matched for count in counts],
        [count.failed for count in counts],
        [count.match_sum_ms for count in counts],
        [count.match_max_ms for count in counts],
    )


async def add_to_windows(db: Db, sums: Mapping[Window, Counts], *, rule: AlertRule) -> list[Alert]:
    """Add to the windows; returns the alerts that are due now. A constraint allows one alert per window."""
    rows = await db.fetch(
        "WITH counted AS ("  # noqa: S608 - our own words
        "   INSERT INTO match_windows AS w (region, starts_at, ends_at, matched, failed)"
        "   SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::int[], $5::int[])"
        "     AS more (region, starts_at, ends_at, matched, failed)"
        "   ORDER BY region, starts_at, ends_at"
        "   ON CONFLICT (region, starts_at, ends_at) DO UPDATE"
        "     SET matched = w.matched + EXCLUDED.matched, failed = w.failed + EXCLUDED.failed"
        "   RETURNING region, starts_at, ends_at, matched, failed)"
        " INSERT INTO demand_alerts (id, region, starts_at, ends_at, matched, failed)"
        " SELECT gen_random_uuid(), region, starts_at, ends_at, matched, failed FROM counted"
        " WHERE matched + failed >= $6 AND 100.0 * failed > $7::float8 * (matched + failed)"
        " ORDER BY region, starts_at, ends_at"
        " ON CONFLICT ON CONSTRAINT one_alert_a_region_and_window DO NOTHING"
        f" RETURNING {ALERT}",
        [window.region for window in sums],
        [window.starts_at for window in sums],
        [window.ends_at for window in sums],
        [count.matched for count in sums.values()],
        [count.failed for count in sums.values()],
        rule.minimum,
        rule.percent,
    )
    return [_alert(row) for row in rows]


async def find_demand(
    db: Db, wanted: DemandFilter, *, before: tuple[datetime, Cell] | None, limit: int
) -> list[Demand]:
    """The latest hours first, starting behind `before`."""
    where = Conditions()
    if wanted.starts_at is not None:
        where.add("hour >= {}", wanted.starts_at)
    if wanted.ends_at is not None:
        where.add("hour < {}", wanted.ends_at)
    if wanted.cells is not None:
        where.add("cell BETWEEN {} AND {}", *wanted.cells)
    if wanted.failed_only:
        where.add("failed > 0")
    if before is not None:
        where.add("(hour, cell) < ({}, {})", *before)
    rows = await db.fetch(
        f"SELECT hour, cell, {COUNTS} FROM demand WHERE {where}"  # noqa: S608 - our own words
        f" ORDER BY hour DESC, cell DESC LIMIT {where.value(limit)}",
        *where.values,
    )
    return [_demand(row) for row in rows]


async def find_alerts(db: Db, *, before: UUID | None, limit: int) -> list[Alert]:
    """The newest first, starting behind `before`."""
    where = Conditions()
    if before is not None:
        where.add("(at, id) < ((SELECT at FROM demand_alerts WHERE id = {0}), {0})", before)
    rows = await db.fetch(
        f"SELECT {ALERT} FROM demand_alerts WHERE {where}"  # noqa: S608 - our own words
        f" ORDER BY at DESC, id DESC LIMIT {where.value(limit)}",
        *where.values,
    )
    return [_alert(row) for row in rows]


async def prune_demand(db: Db) -> int:
    """Delete old demand, a bounded number of rows; returns how many."""
    return await prune_rows(db, "demand", aged_by="hour", older_than=RETENTION)


async def prune_windows(db: Db) -> int:
    """Delete old windows with their alerts, a bounded number; returns how many."""
    return await prune_rows(db, "match_windows", aged_by="ends_at", older_than=RETENTION)


def _demand(row: Row) -> Demand:
    counts = Counts(**{name: row[name] for name in COUNTS.split(", ")})
    return Demand(hour=row["hour"], cell=Cell(row["cell"]), counts=counts)


def _alert(row: Row) -> Alert:
    window = Window(Region(row["region"]), row["starts_at"], row["ends_at"])
    return Alert(id=row["id"], window=window, matched=row["matched"], failed=row["failed"], at=row["at"])


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="one alert per region and window",
        sentence="Each region has at most one alert per window.",
        table="demand_alerts",
        constraint="one_alert_a_region_and_window",
        definition=("UNIQUE (region, starts_at, ends_at)",),
    ),
    Invariant(
        name="alerts count no more than their window",
        sentence="No alert counts more searches than its window.",
        query="SELECT a.id FROM demand_alerts a JOIN match_windows w USING (region, starts_at, ends_at)"
        " WHERE a.matched > w.matched OR a.failed > w.failed",
    ),
)
