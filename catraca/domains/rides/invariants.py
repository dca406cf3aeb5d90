"""Rules about rides that `catraca doctor` checks: constraints of the schema, and queries for violations."""

from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld

# Events of rides that are published or due, as far as they are kept and checked.
_EVENTS = (
    "SELECT aggregate_id, routing_key, headers, created_at FROM outbox"  # noqa: S608 - constants only
    " WHERE exchange = 'rides.events' AND queue IS NULL UNION ALL"
    " (SELECT aggregate_id, routing_key, headers, created_at FROM outbox_sent"
    "  WHERE exchange = 'rides.events' AND queue IS NULL AND sent_at > clock_timestamp() - interval '1 day'"
    " ORDER BY sent_at DESC LIMIT " + str(CHECKED_EVENTS) + ")"
)

INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="prices of rides can be read",
        sentence="A constraint refuses prices without their four amounts, which would fail a list.",
        table="rides",
        constraint="ride_prices_can_be_read",
        definition=("is_prices(tariff)",),
    ),
    ConstraintHeld(
        number=1,
        name="one winner per round",
        sentence="A ride is accepted at most once per round.",
        table="ride_offers",
        constraint="one_winner_a_round",
        definition=("UNIQUE", "(ride_id, round)", "WHERE (response = 'ACCEPTED'::text)"),
    ),
    Invariant(
        number=1,
        name="one ride.accepted per round",
        sentence="A round has at most one `ride.accepted` event.",
        query=f"SELECT aggregate_id, (headers->>'round')::integer AS round FROM ({_EVENTS}) AS events"  # noqa: S608
        " WHERE routing_key = 'ride.accepted' GROUP BY 1, 2 HAVING count(*) > 1",
    ),
    Invariant(
        number=1,
        name="one ride.matched per round",
        sentence="A round has at most one `ride.matched` event.",
        query=f"SELECT aggregate_id, (headers->>'round')::integer AS round FROM ({_EVENTS}) AS events"  # noqa: S608
        " WHERE routing_key = 'ride.matched' GROUP BY 1, 2 HAVING count(*) > 1",
    ),
    ConstraintHeld(
        number=2,
        name="one held offer per driver",
        sentence="A driver has at most one live offer or one ride, not both.",
        table="ride_offers",
        constraint="one_held_offer_a_driver",
        definition=("UNIQUE", "(driver_id)", "WHERE held"),
    ),
    ConstraintHeld(
        number=2,
        name="one ride at a time per driver",
        sentence="A driver drives at most one ride.",
        table="rides",
        constraint="one_ride_at_a_time_a_driver",
        definition=("UNIQUE", "(accepted_driver_id)"),
    ),
    ConstraintHeld(
        number=3,
        name="offers are accepted in time",
        sentence="An expired offer is not accepted.",
        table="ride_offers",
        constraint="offers_are_accepted_in_time",
        definition=("responded_at < expires_at",),
    ),
    TriggerHeld(
        number=3,
        name="acceptances commit in time",
        sentence="An acceptance does not commit after its offer's end.",
        table="ride_offers",
        trigger="acceptances_commit_in_time",
        definition=("DEFERRABLE INITIALLY DEFERRED", "NEW.expires_at <= clock_timestamp()"),
    ),
    Invariant(
        number=3,
        name="accepted drivers had the offer",
        sentence="The driver of a ride accepted an offer of it in its round.",
        query="SELECT r.id FROM rides r WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        " AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = r.id AND o.round = r.round"
        "   AND o.driver_id = r.accepted_driver_id AND o.response = 'ACCEPTED' AND o.held)",
    ),
    ConstraintHeld(
        number=4,
        name="only allowed moves",
        sentence="Every step is an allowed move.",
        table="ride_events",
        constraint="only_allowed_moves",
        definition=("'OFFERED>ACCEPTED'",),
    ),
    ConstraintHeld(
        number=4,
        name="steps follow each other",
        sentence="Each step starts from the status in which the step before it ended.",
        table="ride_events",
        constraint="steps_follow_each_other",
        definition=("FOREIGN KEY (ride_id, previous, from_status)",),
    ),
    ConstraintHeld(
        number=4,
        name="one step per number",
        sentence="The steps of a ride have different numbers.",
        table="ride_events",
        constraint="ride_events_pkey",
        definition=("PRIMARY KEY (ride_id, seq)",),
    ),
    ConstraintHeld(
        number=4,
        name="rides stand where their steps end",
        sentence="A ride's status is that of its last step.",
        table="rides",
        constraint="rides_stand_where_their_steps_end",
        definition=("FOREIGN KEY (id, version, status)",),
    ),
    ConstraintHeld(
        number=4,
        name="only operators cancel started rides",
        sentence="A started ride is canceled by an operator only.",
        table="ride_events",
        constraint="only_operators_cancel_started_rides",
        definition=("actor = 'operator'",),
    ),
    ConstraintHeld(
        name="charged distances fit the time",
        sentence="No charged distance is longer than the time since the start allows.",
        table="rides",
        constraint="charged_distances_fit_the_time",
        definition=("completed_at - started_at",),
    ),
    ConstraintHeld(
        name="one flag per ride and kind",
        sentence="A ride is flagged at most once for each kind.",
        table="ride_flags",
        constraint="one_flag_a_ride_and_kind",
        definition=("UNIQUE (ride_id, kind)",),
    ),
    Invariant(
        name="only started rides have a track",
        sentence="A track is deleted when its ride ends.",
        query="SELECT t.ride_id FROM ride_tracks t JOIN rides r ON r.id = t.ride_id"
        " WHERE r.status <> 'STARTED'",
    ),
    Invariant(
        number=5,
        name="live offers belong to offered rides",
        sentence="Every live offer belongs to a ride that is OFFERED.",
        query="SELECT o.id, o.ride_id FROM ride_offers o JOIN rides r ON r.id = o.ride_id"
        " WHERE o.held AND o.response IS NULL AND r.status <> 'OFFERED'",
    ),
    Invariant(
        number=5,
        name="offered rides have a live offer",
        sentence="Every OFFERED ride has a live offer.",
        query="SELECT r.id FROM rides r WHERE r.status = 'OFFERED'"
        " AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = r.id AND o.response IS NULL)",
    ),
    Invariant(
        number=5,
        name="held drivers have a ride under way",
        sentence="A held accepted offer belongs to a ride under way with that driver.",
        query="SELECT o.id, o.ride_id FROM ride_offers o JOIN rides r ON r.id = o.ride_id"
        " WHERE o.held AND o.response = 'ACCEPTED' AND (r.status NOT IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        "   OR r.accepted_driver_id <> o.driver_id)",
    ),
    ConstraintHeld(
        number=6,
        name="one attempt per driver, key and offer",
        sentence="A repeated attempt is recorded once.",
        table="ride_accept_attempts",
        constraint="one_attempt_a_driver_key_and_offer",
        definition=("UNIQUE NULLS NOT DISTINCT (driver_id, idempotency_key, ride_id, offer_id)",),
    ),
    ConstraintHeld(
        number=13,
        name="failed attempts are limited",
        sentence="At most 20 failed attempts of a driver at a ride are recorded.",
        table="ride_accept_attempts",
        constraint="twenty_failures_a_driver_and_ride",
        definition=("place <= 20",),
    ),
    ConstraintHeld(
        number=13,
        name="attempts are numbered",
        sentence="The recorded attempts of a driver at a ride have different numbers.",
        table="ride_accept_attempts",
        constraint="ride_accept_attempts_pkey",
        definition=("PRIMARY KEY (ride_id, driver_id, place)",),
    ),
    ConstraintHeld(
        number=13,
        name="one attempt without an offer",
        sentence="At most one attempt of a driver without an offer is recorded for a ride.",
        table="ride_accept_attempts",
        constraint="one_attempt_without_an_offer",
        definition=("offer_id IS NOT NULL",),
    ),
    Invariant(
        number=8,
        name="every step has its event",
        sentence="Every step of a ride has its event.",
        query="WITH events AS ("  # noqa: S608 - constants only
        f"   SELECT aggregate_id, routing_key, count(*) FROM ({_EVENTS}) AS t GROUP BY 1, 2),"
        " steps AS (SELECT ride_id, news, count(*) FROM ride_events"
        "   WHERE at > clock_timestamp() - interval '23 hours' AND news LIKE 'ride.%' GROUP BY 1, 2)"
        " SELECT s.ride_id FROM steps s LEFT JOIN events t ON t.aggregate_id = s.ride_id"
        "   AND t.routing_key = s.news WHERE coalesce(t.count, 0) < s.count"
        f" AND (SELECT count(*) FROM events) < {CHECKED_EVENTS // 2}",
    ),
    Invariant(
        number=8,
        name="every event has its step",
        sentence="Every event of a ride has its step.",
        query=f"WITH events AS (SELECT aggregate_id, routing_key, count(*) FROM ({_EVENTS}) AS t"  # noqa: S608
        "   WHERE created_at > clock_timestamp() - interval '23 hours' GROUP BY 1, 2)"
        # `ride.matched` follows an acceptance and has no step of its own, nor have flags. Expired
        # confirmations have no ride; geofences checks them.
        " SELECT t.aggregate_id FROM events t"
        " WHERE t.routing_key NOT IN ('ride.matched', 'ride.confirmation_expired', 'ride.flagged')"
        " AND t.count >"
        "   (SELECT count(*) FROM ride_events e WHERE e.ride_id = t.aggregate_id AND e.news = t.routing_key)",
    ),
    Invariant(
        number=12,
        name="no search after its deadline",
        sentence="A search ends within 20 s after its deadline.",
        query="SELECT id FROM rides WHERE status IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND deadline_at < clock_timestamp() - interval '20 s'",
    ),
    Invariant(
        number=13,
        name="every acceptance has its attempt",
        sentence="An accepted offer has one successful attempt until it is pruned; an attempt has its offer.",
        # Attempts are kept for at least a day after the ride's end.
        query="SELECT coalesce(o.id, a.offer_id) AS offer_id"
        " FROM (SELECT id, held OR responded_at > clock_timestamp() - interval '23 hours' AS is_kept"
        "   FROM ride_offers WHERE response = 'ACCEPTED') AS o"
        " FULL JOIN (SELECT offer_id, count(*) FROM ride_accept_attempts"
        "   WHERE status = 'SUCCESS' GROUP BY offer_id) AS a"
        " ON a.offer_id = o.id WHERE o.id IS NULL OR a.count > 1 OR (a.count IS NULL AND o.is_kept)",
    ),
)
