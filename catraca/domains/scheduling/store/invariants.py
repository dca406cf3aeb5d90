"""What must hold of agendas, for `catraca doctor --invariants`."""

from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

# What tells of a change; the others only remind, or offer.
_TELLS = (
    "exchange = 'appointments.events' AND queue IS NULL"
    " AND routing_key NOT IN ('appointment.reminder_due', 'appointment.slot_offered')"
)
_SAID = "aggregate_id, routing_key, (body->>'sequence')::integer AS sequence"
_TOLD = (
    f"told AS (SELECT {_SAID} FROM outbox WHERE {_TELLS} UNION ALL"  # noqa: S608 - our own words
    f" (SELECT {_SAID} FROM outbox_sent WHERE {_TELLS} AND sent_at > clock_timestamp() - interval '1 day'"
    f"  ORDER BY sent_at DESC LIMIT {CHECKED_EVENTS}))"
)
_LAST_NEWS = (
    "(a.status, t.routing_key) IN (('BOOKED', 'appointment.booked'), ('BOOKED', 'appointment.rescheduled'),"
    " ('CONFIRMED', 'appointment.confirmed'), ('NO_SHOW', 'appointment.no_show'),"
    " ('CANCELED', 'appointment.canceled'))"
)

INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=11,
        name="no overlapping claims",
        sentence="No two claims on a worker's or a room's time overlap.",
        # In the order of their beginnings, of two that overlap there are two neighbours that do.
        query="SELECT id FROM (SELECT id, starts_at, lag(ends_at) OVER ("
        "   PARTITION BY subject_no ORDER BY starts_at, ends_at) AS before FROM claims) AS c"
        " WHERE before > starts_at",
    ),
    ConstraintHeld(
        number=11,
        name="claims are kept apart",
        sentence="The database itself refuses claims that overlap.",
        table="claims",
        constraint="no_two_claims_overlap",
        definition=("EXCLUDE USING gist", "claim_box(subject_no, starts_at, ends_at) WITH &&"),
    ),
    ConstraintHeld(
        name="one client a seat",
        sentence="No two clients have one seat.",
        table="appointments",
        constraint="one_client_a_seat",
        definition=("UNIQUE", "session_id, seat_no"),
    ),
    ConstraintHeld(
        name="what counts has a seat",
        sentence="An appointment that counts has a seat, within its session's capacity.",
        table="appointments",
        constraint="what_counts_has_a_seat",
        definition=("session_id IS NOT NULL", "seat_no <= capacity"),
    ),
    ConstraintHeld(
        name="seats are in their session",
        sentence="And its worker, service and time are those for which that time was claimed.",
        table="appointments",
        constraint="seats_are_in_their_session",
        definition=("FOREIGN KEY", "starts_at, ends_at", "begins_at, finishes_at"),
    ),
    Invariant(
        number=8,
        name="every change of an appointment was told",
        sentence="Each change has its event, and the last says what the appointment is now.",
        query=f"WITH {_TOLD} SELECT a.id FROM appointments a"  # noqa: S608 - our own words
        " WHERE a.status NOT IN ('HELD', 'EXPIRED')"
        f" AND a.changed_at > clock_timestamp() - interval '23 hours'"
        f" AND (SELECT count(*) FROM told) < {CHECKED_EVENTS // 2}"
        f" AND (NOT EXISTS (SELECT FROM told t WHERE t.aggregate_id = a.id AND t.sequence = a.sequence"
        f"     AND {_LAST_NEWS})"
        "   OR a.created_at > clock_timestamp() - interval '23 hours' AND a.sequence >="
        "     (SELECT count(DISTINCT t.sequence) FROM told t WHERE t.aggregate_id = a.id))",
    ),
    Invariant(
        number=8,
        name="nothing else was told of appointments",
        sentence="No event tells of a change that there was not, or of one twice; holds are not told of.",
        query=f"WITH {_TOLD} SELECT t.aggregate_id FROM told t"  # noqa: S608 - our own words
        " LEFT JOIN appointments a ON a.id = t.aggregate_id AND a.status NOT IN ('HELD', 'EXPIRED')"
        " GROUP BY t.aggregate_id, t.sequence, a.sequence, a.status"
        " HAVING count(*) > 1 OR t.sequence > coalesce(a.sequence, -1)"
        "   OR bool_or(t.sequence = a.sequence AND NOT " + _LAST_NEWS + ")",
    ),
    ConstraintHeld(
        name="holds end",
        sentence="A hold has an end and a number, and nothing else has.",
        table="appointments",
        constraint="holds_end",
        definition=("expires_at IS NOT NULL", "hold_no IS NOT NULL"),
    ),
    ConstraintHeld(
        name="holds are somebody's",
        sentence="Holds are counted, and so are an account's.",
        table="appointments",
        constraint="holds_are_somebodys",
        definition=("client_id IS NOT NULL",),
    ),
    Invariant(
        name="holds end by themselves",
        sentence="Every hold has the timer that ends it.",
        query="SELECT a.id FROM appointments a WHERE a.status = 'HELD' AND NOT EXISTS ("
        "   SELECT FROM timers t WHERE t.kind = 'scheduling.hold_due' AND t.subject_id = a.id)",
    ),
    ConstraintHeld(
        name="one room a session",
        sentence="A session is in one room at most.",
        table="claims",
        constraint="one_room_a_session",
        definition=("UNIQUE", "(session_id)"),
    ),
    Invariant(
        name="rooms are taken with their session",
        sentence="A room is taken for just the time of the session that is in it.",
        query="SELECT room.id FROM claims room JOIN claims session ON session.id = room.session_id"
        " WHERE session.kind <> 'session'"
        "   OR (room.starts_at, room.ends_at) <> (session.starts_at, session.ends_at)",
    ),
    Invariant(
        name="workers work and rooms are rooms",
        sentence="A session takes a worker's time, and what is taken beside it is a room's.",
        query="SELECT c.id FROM claims c JOIN subjects s ON s.no = c.subject_no"
        " WHERE (c.kind, s.kind) IN (('session', 'room'), ('room', 'worker'))",
    ),
    Invariant(
        name="no time is claimed for nobody",
        sentence="A session has somebody in it.",
        query="SELECT c.id FROM claims c WHERE c.kind = 'session'"
        " AND NOT EXISTS (SELECT FROM appointments a WHERE a.session_id = c.id)",
    ),
    Invariant(
        name="an offer is a hold",
        sentence="Whoever waited and is offered a time has a hold on it, for that place in line.",
        query="SELECT e.id FROM waitlist_entries e JOIN appointments a ON a.id = e.hold_id"
        " WHERE a.waitlist_entry_id IS DISTINCT FROM e.id OR a.client_id <> e.client_id"
        " OR (e.status = 'OFFERED') <> (a.status = 'HELD')",
    ),
    Invariant(
        name="a hold for somebody who waited is offered",
        sentence="No time is held for a place in line that does not say so.",
        query="SELECT a.id FROM appointments a JOIN waitlist_entries e ON e.id = a.waitlist_entry_id"
        " WHERE a.status = 'HELD' AND e.hold_id IS DISTINCT FROM a.id",
    ),
    ConstraintHeld(
        name="one offer at a time",
        sentence="No client holds two times under one number; those offered from a line are all number 0.",
        table="appointments",
        constraint="clients_holds_are_counted",
        definition=("UNIQUE", "client_id, hold_no"),
    ),
    ConstraintHeld(
        name="offers are number 0",
        sentence="What is held for a place in line is number 0, and nothing else is.",
        table="appointments",
        constraint="offers_are_number_0",
        definition=("hold_no = 0", "waitlist_entry_id IS NOT NULL"),
    ),
)
