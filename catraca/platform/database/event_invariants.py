"""Rules for events on a live system: numbered without gaps, sent soon, applied once (8 and 9).

They check unsent events and the newest sent ones: enough to notice a fault, and cheap at any size.
"""

from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

CHECKED_EVENTS = 100_000


def kept(checked: int) -> str:
    """The events of the last day: `outbox_retention` is at least that. Without replays, which are repeats."""
    return (
        "SELECT id, aggregate_id, seq, 'infinity'::timestamptz AS sent_at FROM outbox"  # noqa: S608 - our own
        " WHERE queue IS NULL UNION ALL"
        " (SELECT id, aggregate_id, seq, sent_at FROM outbox_sent"
        "  WHERE queue IS NULL AND sent_at > clock_timestamp() - interval '1 day'"
        f" ORDER BY sent_at DESC LIMIT {checked})"
    )


def no_event_is_missing(checked: int = CHECKED_EVENTS) -> Invariant:
    """No gaps in `seq`. Events of one aggregate are sent in order, or together at slightly different times.

    So the events before the oldest checked ones may be out of sight: hence the margins of one hour before the
    end of the retention and one minute before the oldest checked event.
    """
    return Invariant(
        number=8,
        name="no event is missing",
        sentence="The numbers of one aggregate's events have no gaps, up to the last one given out.",
        query=f"WITH kept AS ({kept(checked)}),"  # noqa: S608 - our own
        " numbers AS (SELECT aggregate_id, seq, sent_at FROM kept UNION ALL"
        "   SELECT aggregate_id, seq + 1, '-infinity' FROM outbox_heads"
        "   WHERE aggregate_id IN (SELECT aggregate_id FROM kept)),"
        " pairs AS (SELECT aggregate_id, seq, sent_at,"
        "   lead(seq) OVER (PARTITION BY aggregate_id ORDER BY seq) AS next_seq FROM numbers),"
        " margin AS (SELECT min(sent_at) + interval '1 minute' AS since FROM kept"
        f"   HAVING count(*) >= {checked})"
        " SELECT aggregate_id, seq + 1 AS missing_seq FROM pairs WHERE next_seq > seq + 1 AND sent_at >"
        "   greatest(clock_timestamp() - interval '23 hours', (SELECT since FROM margin))",
    )


EVENT_INVARIANTS: tuple[Rule, ...] = (
    no_event_is_missing(),
    Invariant(
        number=8,
        name="every number was given out",
        sentence="No event has a number beyond the last one its aggregate was given.",
        query=f"SELECT k.id, k.aggregate_id, k.seq FROM ({kept(CHECKED_EVENTS)}) AS k"  # noqa: S608 - our own
        " LEFT JOIN outbox_heads h ON h.aggregate_id = k.aggregate_id"
        " WHERE k.seq NOT BETWEEN 1 AND coalesce(h.seq, 0)",
    ),
    ConstraintHeld(
        number=8,
        name="one count per aggregate",
        sentence="Events of an aggregate are numbered under the lock of one row.",
        table="outbox_heads",
        constraint="outbox_heads_pkey",
        definition=("PRIMARY KEY (aggregate_id)",),
    ),
    ConstraintHeld(
        number=8,
        name="one event per number",
        sentence="No two events of an aggregate have the same number.",
        table="outbox",
        constraint="outbox_aggregate_id_seq_key",
        definition=("UNIQUE (aggregate_id, seq)",),
    ),
    Invariant(
        number=8,
        name="no event waits",
        # `created_at` of a replay may be in the future: the time at which it is to be sent.
        sentence="Every event is sent within a minute.",
        query="SELECT id, aggregate_id, seq, failures FROM outbox"
        " WHERE created_at < clock_timestamp() - interval '1 minute'",
    ),
    ConstraintHeld(
        number=9,
        name="one inbox row per consumer and event",
        sentence="A consumer applies an event in the transaction that inserts its inbox row, so once.",
        table="inbox",
        constraint="inbox_pkey",
        definition=("PRIMARY KEY (consumer, event_id)",),
    ),
    ConstraintHeld(
        number=9,
        name="one id per event",
        sentence="No two unsent events have the same id.",
        table="outbox",
        constraint="outbox_pkey",
        definition=("PRIMARY KEY (id)",),
    ),
    ConstraintHeld(
        number=9,
        name="one id per sent event",
        sentence="No two sent events have the same id.",
        table="outbox_sent",
        constraint="outbox_sent_pkey",
        definition=("PRIMARY KEY (id)",),
    ),
    Invariant(
        number=9,
        name="no event is stored twice",
        sentence="An event is unsent or sent, not both, and no other event has its number.",
        query=f"WITH kept AS ({kept(CHECKED_EVENTS)})"  # noqa: S608 - our own
        " SELECT aggregate_id, seq FROM kept GROUP BY aggregate_id, seq HAVING count(*) > 1"
        " UNION SELECT max(aggregate_id::text)::uuid, max(seq) FROM kept GROUP BY id HAVING count(*) > 1",
    ),
)
