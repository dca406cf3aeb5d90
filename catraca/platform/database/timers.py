"""Durable timers: set in the business transaction, due by the database's clock, fired once.

    OFFER_EXPIRES = TimerKind("rides.offer_expires")  # service.py
    await timers.set_timer(db, OFFER_EXPIRES, offer.id, due_at=offer.expires_at)

    fires = TimerHandlers()  # jobs.py

    @fires(OFFER_EXPIRES)
    async def expire_offer(db: Db, offer_id: UUID) -> None: ...

A timer is a row, one for each kind and subject. The runner claims due timers (a lease), runs the handler of
each in its own transaction, and at the end deletes the row if it still has the lease. If not (the timer was
moved, canceled or taken over), the handler's work is rolled back. The row is deleted last because business
code also changes its own rows first and its timers afterwards: with one lock order there are no deadlocks.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType
from uuid import UUID

from catraca.platform.database.connection import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.database.transactions import LONG_TRANSACTION_SECONDS

TimerKind = NewType("TimerKind", str)
Handler = Callable[[Db, UUID], Awaitable[None]]

WAKE_TOPIC = "timers"
# Every runner polls at least this often, and so knows most timers long before they are due.
POLL_SECONDS = 1.0
# Runners are notified of timers due sooner: the next poll may be too late, above all after a slow commit.
SOON = timedelta(seconds=POLL_SECONDS + LONG_TRANSACTION_SECONDS)
# The timers that a dead runner had claimed wait this long.
LEASE_SECONDS = 10.0
LONGEST_DELAY_SECONDS = 60.0
# Two leases: by then another runner should have fired it.
OVERDUE = timedelta(seconds=2 * LEASE_SECONDS)
COUNTED_TO = 10_000


class TimerHandlers:
    """A domain's handlers, one for each kind of timer.

    A handler gets an open transaction and never commits. It checks the subject's state, and does nothing if
    that has changed.
    """

    def __init__(self) -> None:
        self.by_kind: dict[TimerKind, Handler] = {}

    def __call__(self, kind: TimerKind) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            assert kind not in self.by_kind, f"there already is a handler for {kind}"
            self.by_kind[kind] = handler
            return handler

        return add


async def set_timer(
    db: Db,
    kind: TimerKind,
    *subject_ids: UUID,
    due_in: timedelta | None = None,
    due_at: datetime | None = None,
) -> None:
    """Set one timer for each subject, or move it if it is set. It fires if and only if this commits.

    It is due after `due_in`, or at `due_at`, a time of the database. Change the subjects' rows first.
    """
    assert (due_in is None) != (due_at is None), "give due_in or due_at"
    await _set(db, kind, dict.fromkeys(subject_ids, due_at), due_in=due_in)


async def set_timers(db: Db, kind: TimerKind, due_at: Mapping[UUID, datetime]) -> None:
    """Set or move the timers of several subjects, each to its own time."""
    if due_at:
        await _set(db, kind, due_at)


async def _set(
    db: Db, kind: TimerKind, due_at: Mapping[UUID, datetime | None], *, due_in: timedelta | None = None
) -> None:
    soon = await db.fetchval(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() + $4::interval AS later),"
        " timer AS ("
        "   INSERT INTO timers AS t (kind, subject_id, due_at, awake_at)"
        "   SELECT $1, id, coalesce(due, later), coalesce(due, later)"
        "   FROM unnest($2::uuid[], $3::timestamptz[]) AS subject (id, due) CROSS JOIN moment ORDER BY id"
        "   ON CONFLICT (kind, subject_id) DO UPDATE"
        "   SET due_at = EXCLUDED.due_at, awake_at = EXCLUDED.due_at, failures = 0,"
        # A handler that sets its own timer again keeps the lease, which `end_firing` checks.
        "     lease = CASE WHEN t.lease::text = current_setting('catraca.firing', true) THEN t.lease END"
        "   RETURNING due_at)"
        " SELECT bool_or(due_at < clock_timestamp() + $5) FROM timer",
        kind,
        list(due_at),
        list(due_at.values()),
        due_in,
        SOON,
    )
    if soon:
        db.notify(WAKE_TOPIC)


async def cancel_timer(db: Db, kind: TimerKind, *subject_ids: UUID) -> None:
    """Cancel these timers: none fires if this commits. Safe to repeat. Change the subjects' rows first."""
    await db.execute(
        # The timer whose handler calls this is deleted by `end_firing`, even if the handler set it again.
        # In a subquery, which hides the array's length: else PostgreSQL plans this anew for each call.
        "WITH firing AS ("
        "   UPDATE timers SET awake_at = 'infinity'"
        "   WHERE kind = $1 AND subject_id = ANY (ARRAY(SELECT unnest($2::uuid[])))"
        "     AND lease::text = current_setting('catraca.firing', true))"
        " DELETE FROM timers WHERE kind = $1 AND subject_id = ANY (ARRAY(SELECT unnest($2::uuid[])))"
        "   AND (lease::text = current_setting('catraca.firing', true)) IS NOT TRUE",
        kind,
        list(subject_ids),
    )


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A claimed timer: this process may fire it while its row has this lease."""

    kind: TimerKind
    subject_id: UUID
    due_at: datetime
    failures: int
    lease: UUID


async def claim_due(
    db: Db, kinds: Collection[TimerKind], *, lease: UUID, lease_seconds: float, limit: int
) -> list[DueTimer]:
    """Claim the timers of these kinds that are due longest. Each claim needs a new `lease`."""
    rows = await db.fetch(
        "UPDATE timers SET lease = $2, awake_at = clock_timestamp() + make_interval(secs => $3)"
        # By ctid: a join on the key would let the planner read the whole table.
        " WHERE ctid = ANY (ARRAY("
        "   SELECT due.place FROM unnest($1::text[]) AS wanted CROSS JOIN LATERAL ("
        "     SELECT ctid AS place, awake_at FROM timers"
        # A subselect is evaluated once, the bare function for every row of the index.
        "     WHERE kind = wanted AND awake_at <= (SELECT clock_timestamp())"
        "     ORDER BY awake_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS due"
        "   ORDER BY due.awake_at LIMIT $4))"
        " RETURNING kind, subject_id, due_at, failures",
        list(kinds),
        lease,
        lease_seconds,
        limit,
    )
    return [DueTimer(**row, lease=lease) for row in rows]


async def seconds_to_next(db: Db, kinds: Collection[TimerKind]) -> float | None:
    """Seconds until a timer of these kinds can be claimed, negative if overdue; None without timers."""
    return await db.fetchval(
        "SELECT extract(epoch FROM min(next.awake_at) - clock_timestamp())::float8"
        " FROM unnest($1::text[]) AS wanted CROSS JOIN LATERAL ("
        "   SELECT awake_at FROM timers WHERE kind = wanted ORDER BY awake_at LIMIT 1) AS next",
        list(kinds),
    )


async def begin_firing(db: Db, timer: DueTimer) -> bool:
    """Begin firing in this transaction, without a lock; False if the lease is lost."""
    return await db.fetchval(
        "SELECT set_config('catraca.firing', lease::text, true) IS NOT NULL FROM timers"
        " WHERE kind = $1 AND subject_id = $2 AND lease = $3",
        timer.kind,
        timer.subject_id,
        timer.lease,
    )


async def end_firing(db: Db, timer: DueTimer) -> float | None:
    """Delete the fired timer; returns how many seconds late it was, or None if the lease is lost."""
    return await db.fetchval(
        "WITH gone AS ("
        "   DELETE FROM timers WHERE kind = $1 AND subject_id = $2 AND lease = $3 AND awake_at > due_at"
        "   RETURNING kind),"
        # A claimed timer has `awake_at` at the end of its lease; this one was set again by its own handler.
        " again AS ("
        "   UPDATE timers SET lease = NULL"
        "   WHERE kind = $1 AND subject_id = $2 AND lease = $3 AND awake_at = due_at"
        "   RETURNING kind)"
        " SELECT extract(epoch FROM clock_timestamp() - $4)::float8"
        " FROM (SELECT FROM gone UNION ALL SELECT FROM again) AS ours",
        timer.kind,
        timer.subject_id,
        timer.lease,
        timer.due_at,
    )


async def count_failure(db: Db, timer: DueTimer) -> None:
    """Count a failure of the handler, and retry after a pause that doubles each time."""
    await db.execute(
        "UPDATE timers SET lease = NULL, failures = failures + 1,"
        "   awake_at = clock_timestamp() + make_interval(secs => least(2.0 ^ least(failures, 10), $4))"
        " WHERE kind = $1 AND subject_id = $2 AND lease = $3",
        timer.kind,
        timer.subject_id,
        timer.lease,
        LONGEST_DELAY_SECONDS,
    )


async def postpone(db: Db, timer: DueTimer) -> None:
    """Retry after a pause that grows with the delay so far: after an outage, which is no failure."""
    await db.execute(
        "UPDATE timers SET lease = NULL, awake_at = clock_timestamp()"
        "   + least(greatest((clock_timestamp() - due_at) / 2, interval '0.2 s'), interval '5 s')"
        " WHERE kind = $1 AND subject_id = $2 AND lease = $3",
        timer.kind,
        timer.subject_id,
        timer.lease,
    )


async def release(db: Db, timers: Sequence[DueTimer]) -> None:
    """Release these timers if we still have their leases, so that another runner can claim them."""
    await db.execute(
        "UPDATE timers t SET lease = NULL, awake_at = due_at"
        " FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS ours (kind, subject_id, lease)"
        " WHERE t.kind = ours.kind AND t.subject_id = ours.subject_id AND t.lease = ours.lease",
        [timer.kind for timer in timers],
        [timer.subject_id for timer in timers],
        [timer.lease for timer in timers],
    )
    db.notify(WAKE_TOPIC)


@dataclass(frozen=True, slots=True)
class TimerCount:
    """Pending and overdue timers of one kind, each counted up to a limit."""

    kind: TimerKind
    pending: int
    overdue: int


async def count_timers(db: Db) -> list[TimerCount]:
    """Counts for every kind with timers, with or without a handler. Bounded cost at any size."""
    rows = await db.fetch(
        "WITH RECURSIVE kinds AS ("
        "   (SELECT kind FROM timers ORDER BY kind LIMIT 1)"
        "   UNION ALL"
        "   SELECT (SELECT t.kind FROM timers t WHERE t.kind > k.kind ORDER BY t.kind LIMIT 1)"
        "   FROM kinds k WHERE k.kind IS NOT NULL)"
        " SELECT k.kind,"
        "   (SELECT count(*) FROM (SELECT FROM timers t WHERE t.kind = k.kind LIMIT $1) AS t) AS pending,"
        # `awake_at` of an overdue timer is within the longest delay, so it is at the front of the index.
        "   (SELECT count(*) FROM (SELECT FROM timers t WHERE t.kind = k.kind"
        "      AND t.awake_at <= (SELECT clock_timestamp() + make_interval(secs => $2))"
        "      AND t.due_at < (SELECT clock_timestamp() - $3::interval) LIMIT $1) AS t) AS overdue"
        " FROM kinds k WHERE k.kind IS NOT NULL",
        COUNTED_TO,
        LONGEST_DELAY_SECONDS,
        OVERDUE,
    )
    return [TimerCount(**row) for row in rows]


TIMER_INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=14,
        name="no timer is long overdue",
        sentence=f"No timer is overdue by more than two leases ({OVERDUE.total_seconds():.0f} s).",
        query="SELECT subject_id, failures FROM timers"  # noqa: S608 - a number of ours
        f" WHERE due_at < clock_timestamp() - interval '{OVERDUE.total_seconds():.0f} s'",
    ),
    ConstraintHeld(
        number=14,
        name="one timer per kind and subject",
        sentence="Setting a timer again moves it; there is never a second one to fire.",
        table="timers",
        constraint="timers_pkey",
        definition=("PRIMARY KEY (kind, subject_id)",),
    ),
)
