"""Rules on scheduling for `catraca doctor --invariants`."""

from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

# Events of changes; the others only remind, or offer.
_IS_CHANGE = (
    "exchange = 'appointments.events' AND queue IS NULL"
    " AND routing_key NOT IN ('appointment.reminder_due', 'appointment.slot_offered')"
)
_EVENT = "aggregate_id, routing_key, (body->>'sequence')::integer AS sequence"
_EVENTS = f"""
    events AS (SELECT {_EVENT} FROM outbox WHERE {_IS_CHANGE} UNION ALL
      (SELECT {_EVENT} FROM outbox_sent
       WHERE {_IS_CHANGE} AND sent_at > clock_timestamp() - interval '1 day'
       ORDER BY sent_at DESC LIMIT {CHECKED_EVENTS}))
"""  # noqa: S608
# Event `t` is the one of the change that led to the status of `a`.
_MATCHES_STATUS = """
    (a.status, t.routing_key) IN (('BOOKED', 'appointment.booked'), ('BOOKED', 'appointment.rescheduled'),
      ('CONFIRMED', 'appointment.confirmed'), ('NO_SHOW', 'appointment.no_show'),
      ('CANCELED', 'appointment.canceled'))
"""

INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        name="the hours of every worker can be read",
        sentence="The dates of rules and overrides are from 1970 to 2199; else the worker is not offered.",
        query="""
            SELECT id AS worker_id FROM subjects s
            WHERE EXISTS (SELECT FROM worker_rules WHERE subject_no = s.no
                AND NOT (is_plausible(valid_from) AND is_plausible(valid_to)))
              OR EXISTS (SELECT FROM worker_overrides WHERE subject_no = s.no AND NOT is_plausible(day))
        """,
    ),
    ConstraintHeld(
        name="the database refuses rules out of range",
        sentence="A constraint refuses weekly hours with a date before 1970 or after 2199.",
        table="worker_rules",
        constraint="worker_rules_times_in_range",
        definition=("is_plausible(valid_from)", "is_plausible(valid_to)"),
    ),
    ConstraintHeld(
        name="the database refuses overrides out of range",
        sentence="A constraint refuses overrides of days before 1970 or after 2199.",
        table="worker_overrides",
        constraint="worker_overrides_times_in_range",
        definition=("is_plausible(day)",),
    ),
    Invariant(
        number=11,
        name="no overlapping claims",
        sentence="No two claims on a worker's or a room's time overlap.",
        # Sorted by start, two overlapping claims imply two overlapping neighbours.
        query="""
            SELECT id FROM (SELECT id, starts_at, lag(ends_at) OVER (
              PARTITION BY subject_no ORDER BY starts_at, ends_at) AS before FROM claims) AS c
            WHERE before > starts_at
        """,
    ),
    ConstraintHeld(
        number=11,
        name="the database refuses overlapping claims",
        sentence="A constraint refuses claims on one agenda that overlap.",
        table="claims",
        constraint="no_two_claims_overlap",
        definition=("EXCLUDE USING gist", "claim_box(subject_no, starts_at, ends_at) WITH &&"),
    ),
    Invariant(
        name="no client is in two places",
        sentence="No two appointments or holds overlap that a client with an account made itself.",
        query="""
            SELECT id FROM (SELECT id, starts_at, lag(ends_at) OVER (
              PARTITION BY client_id ORDER BY starts_at, ends_at) AS before FROM appointments
              WHERE client_id IS NOT NULL AND NOT made_by_operator
                AND status IN ('HELD', 'BOOKED', 'CONFIRMED')) AS a
            WHERE before > starts_at
        """,
    ),
    ConstraintHeld(
        name="the database refuses clients in two places",
        sentence="A constraint refuses overlapping appointments of a client that no operator made.",
        table="appointments",
        constraint="no_client_is_in_two_places",
        definition=(
            "EXCLUDE USING gist",
            "client_box(client_id, starts_at, ends_at) WITH &&",
            "client_point(client_id) WITH ~=",
            "NOT made_by_operator",
        ),
    ),
    ConstraintHeld(
        name="one client per seat",
        sentence="No two appointments have the same seat.",
        table="appointments",
        constraint="one_client_a_seat",
        definition=("UNIQUE", "session_id, seat_no"),
    ),
    ConstraintHeld(
        name="every active appointment has a seat",
        sentence="An appointment that is not canceled or expired has a seat, within its session's capacity.",
        table="appointments",
        constraint="what_counts_has_a_seat",
        definition=("session_id IS NOT NULL", "seat_no <= capacity"),
    ),
    ConstraintHeld(
        name="every seat is in its session",
        sentence="The worker, service and time of a seat are those of its session.",
        table="appointments",
        constraint="seats_are_in_their_session",
        definition=("FOREIGN KEY", "starts_at, ends_at", "begins_at, finishes_at"),
    ),
    Invariant(
        number=8,
        name="every change of an appointment has its event",
        sentence="Each change of an appointment has an event, and the last event matches its status.",
        query=f"""
            WITH {_EVENTS} SELECT a.id FROM appointments a
            WHERE a.status NOT IN ('HELD', 'EXPIRED')
              AND a.changed_at > clock_timestamp() - interval '23 hours'
              AND (SELECT count(*) FROM events) < {CHECKED_EVENTS // 2}
              AND (NOT EXISTS (SELECT FROM events t
                  WHERE t.aggregate_id = a.id AND t.sequence = a.sequence AND {_MATCHES_STATUS})
                OR a.created_at > clock_timestamp() - interval '23 hours' AND a.sequence >=
                  (SELECT count(DISTINCT t.sequence) FROM events t WHERE t.aggregate_id = a.id))
        """,  # noqa: S608
    ),
    Invariant(
        number=8,
        name="every appointment event has its change",
        sentence="No event without a change, no change with two events, and no events of holds.",
        query=f"""
            WITH {_EVENTS} SELECT t.aggregate_id FROM events t
            LEFT JOIN appointments a ON a.id = t.aggregate_id AND a.status NOT IN ('HELD', 'EXPIRED')
            GROUP BY t.aggregate_id, t.sequence, a.sequence, a.status
            HAVING count(*) > 1 OR t.sequence > coalesce(a.sequence, -1)
              OR bool_or(t.sequence = a.sequence AND NOT {_MATCHES_STATUS})
        """,  # noqa: S608
    ),
    ConstraintHeld(
        name="every hold expires",
        sentence="A hold, and nothing else, has an expiry time and a number.",
        table="appointments",
        constraint="holds_end",
        definition=("expires_at IS NOT NULL", "hold_no IS NOT NULL"),
    ),
    ConstraintHeld(
        name="every hold has an account",
        sentence="Holds are counted per account, so each has one.",
        table="appointments",
        constraint="holds_are_somebodys",
        definition=("client_id IS NOT NULL",),
    ),
    Invariant(
        name="every hold has its timer",
        sentence="Each hold has the timer that expires it.",
        query="""
            SELECT a.id FROM appointments a WHERE a.status = 'HELD' AND NOT EXISTS (
              SELECT FROM timers t WHERE t.kind = 'scheduling.hold_due' AND t.subject_id = a.id)
        """,
    ),
    ConstraintHeld(
        name="one room per session",
        sentence="A session has one room at most.",
        table="claims",
        constraint="one_room_a_session",
        definition=("UNIQUE", "(session_id)"),
    ),
    Invariant(
        name="rooms are claimed with their session",
        sentence="A room is claimed for exactly the time of its session.",
        query="""
            SELECT room.id FROM claims room JOIN claims session ON session.id = room.session_id
            WHERE session.kind <> 'session'
              OR (room.starts_at, room.ends_at) <> (session.starts_at, session.ends_at)
        """,
    ),
    Invariant(
        name="claims fit their subject",
        sentence="A session claims a worker's time, and a room claim a room's.",
        query="""
            SELECT c.id FROM claims c JOIN subjects s ON s.no = c.subject_no
            WHERE (c.kind, s.kind) IN (('session', 'room'), ('room', 'worker'))
        """,
    ),
    Invariant(
        name="every session has a client",
        sentence="Each session has at least one appointment or hold.",
        query="""
            SELECT c.id FROM claims c WHERE c.kind = 'session'
              AND NOT EXISTS (SELECT FROM appointments a WHERE a.session_id = c.id)
        """,
    ),
    Invariant(
        name="every offer has its hold",
        sentence="An offered waitlist entry has a hold of its client, and the hold refers to the entry.",
        query="""
            SELECT e.id FROM waitlist_entries e JOIN appointments a ON a.id = e.hold_id
            WHERE a.waitlist_entry_id IS DISTINCT FROM e.id OR a.client_id <> e.client_id
              OR (e.status = 'OFFERED') <> (a.status = 'HELD')
        """,
    ),
    Invariant(
        name="every offered hold has its entry",
        sentence="A hold that refers to a waitlist entry is the offer of that entry.",
        query="""
            SELECT a.id FROM appointments a JOIN waitlist_entries e ON e.id = a.waitlist_entry_id
            WHERE a.status = 'HELD' AND e.hold_id IS DISTINCT FROM a.id
        """,
    ),
    ConstraintHeld(
        name="one offer per client",
        sentence="No two holds of a client have the same number; all offers have number 0.",
        table="appointments",
        constraint="clients_holds_are_counted",
        definition=("UNIQUE", "client_id, hold_no"),
    ),
    ConstraintHeld(
        name="offers have number 0",
        sentence="Holds of waitlist entries, and no others, have number 0.",
        table="appointments",
        constraint="offers_are_number_0",
        definition=("hold_no = 0", "waitlist_entry_id IS NOT NULL"),
    ),
)
