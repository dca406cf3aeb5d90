"""What must hold of rides on a live system: what the schema holds, and what it cannot."""

from catraca.platform.database.event_invariants import LOOKED_AT
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld

_TOLD = (
    "SELECT aggregate_id, routing_key, headers, created_at FROM outbox"  # noqa: S608 - our own words
    " WHERE exchange = 'rides.events' AND queue IS NULL UNION ALL"
    " (SELECT aggregate_id, routing_key, headers, created_at FROM outbox_sent"
    "  WHERE exchange = 'rides.events' AND queue IS NULL AND sent_at > clock_timestamp() - interval '1 day'"
    " ORDER BY sent_at DESC LIMIT " + str(LOOKED_AT) + ")"
)

INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        number=1,
        name="one winner a round",
        sentence="A ride is accepted once in each round.",
        table="ride_offers",
        constraint="one_winner_a_round",
        definition=("UNIQUE", "(ride_id, round)", "WHERE (response = 'ACCEPTED'::text)"),
    ),
    Invariant(
        number=1,
        name="one ride.accepted a round",
        sentence="It is told once, too.",
        query=f"SELECT aggregate_id, (headers->>'round')::integer AS round FROM ({_TOLD}) AS told"  # noqa: S608
        " WHERE routing_key = 'ride.accepted' GROUP BY 1, 2 HAVING count(*) > 1",
    ),
    Invariant(
        number=1,
        name="one ride.matched a round",
        sentence="And the passenger hears of it once.",
        query=f"SELECT aggregate_id, (headers->>'round')::integer AS round FROM ({_TOLD}) AS told"  # noqa: S608
        " WHERE routing_key = 'ride.matched' GROUP BY 1, 2 HAVING count(*) > 1",
    ),
    ConstraintHeld(
        number=2,
        name="one held offer a driver",
        sentence="No driver has two live offers, two rides, or an offer while driving.",
        table="ride_offers",
        constraint="one_held_offer_a_driver",
        definition=("UNIQUE", "(driver_id)", "WHERE held"),
    ),
    ConstraintHeld(
        number=2,
        name="one ride at a time a driver",
        sentence="No driver is on two rides, whatever the offers say.",
        table="rides",
        constraint="one_ride_at_a_time_a_driver",
        definition=("UNIQUE", "(accepted_driver_id)"),
    ),
    ConstraintHeld(
        number=3,
        name="offers are accepted in time",
        sentence="Nobody accepts what has expired.",
        table="ride_offers",
        constraint="offers_are_accepted_in_time",
        definition=("responded_at < expires_at",),
    ),
    TriggerHeld(
        number=3,
        name="acceptances commit in time",
        sentence="An acceptance that would commit after its offer's end does not commit.",
        table="ride_offers",
        trigger="acceptances_commit_in_time",
        definition=("DEFERRABLE INITIALLY DEFERRED", "NEW.expires_at <= clock_timestamp()"),
    ),
    Invariant(
        number=3,
        name="accepted drivers had the offer",
        sentence="Whoever drives a ride had accepted an offer of it, in its round.",
        query="SELECT r.id FROM rides r WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        " AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = r.id AND o.round = r.round"
        "   AND o.driver_id = r.accepted_driver_id AND o.response = 'ACCEPTED' AND o.held)",
    ),
    ConstraintHeld(
        number=4,
        name="only allowed moves",
        sentence="No step leads where a ride cannot go.",
        table="ride_events",
        constraint="only_allowed_moves",
        definition=("'OFFERED>ACCEPTED'",),
    ),
    ConstraintHeld(
        number=4,
        name="steps follow each other",
        sentence="Each step begins where the one before it ended, without a gap.",
        table="ride_events",
        constraint="steps_follow_each_other",
        definition=("FOREIGN KEY (ride_id, previous, from_status)",),
    ),
    ConstraintHeld(
        number=4,
        name="one step a number",
        sentence="No two steps of a ride have one number.",
        table="ride_events",
        constraint="ride_events_pkey",
        definition=("PRIMARY KEY (ride_id, seq)",),
    ),
    ConstraintHeld(
        number=4,
        name="rides stand where their steps end",
        sentence="No ride is in a state that none of its steps led to.",
        table="rides",
        constraint="rides_stand_where_their_steps_end",
        definition=("FOREIGN KEY (id, version, status)",),
    ),
    Invariant(
        number=5,
        name="live offers are of offered rides",
        sentence="No offer is live on a ride that is not OFFERED.",
        query="SELECT o.id, o.ride_id FROM ride_offers o JOIN rides r ON r.id = o.ride_id"
        " WHERE o.held AND o.response IS NULL AND r.status <> 'OFFERED'",
    ),
    Invariant(
        number=5,
        name="offered rides have a live offer",
        sentence="No ride is OFFERED to nobody.",
        query="SELECT r.id FROM rides r WHERE r.status = 'OFFERED'"
        " AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = r.id AND o.response IS NULL)",
    ),
    Invariant(
        number=5,
        name="drivers are held by rides under way",
        sentence="Nobody is kept by a ride that is over, or that somebody else drives.",
        query="SELECT o.id, o.ride_id FROM ride_offers o JOIN rides r ON r.id = o.ride_id"
        " WHERE o.held AND o.response = 'ACCEPTED' AND (r.status NOT IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        "   OR r.accepted_driver_id <> o.driver_id)",
    ),
    ConstraintHeld(
        number=6,
        name="one attempt a driver, key and offer",
        sentence="An attempt that is repeated is not a second one.",
        table="ride_accept_attempts",
        constraint="one_attempt_a_driver_key_and_offer",
        definition=("UNIQUE NULLS NOT DISTINCT (driver_id, idempotency_key, ride_id, offer_id)",),
    ),
    Invariant(
        number=8,
        name="every step was told",
        sentence="What a ride's steps say was told has its event.",
        query=f"WITH told AS (SELECT aggregate_id, routing_key, count(*) FROM ({_TOLD}) AS t GROUP BY 1, 2),"  # noqa: S608
        " steps AS (SELECT ride_id, news, count(*) FROM ride_events"
        "   WHERE at > clock_timestamp() - interval '23 hours' AND news LIKE 'ride.%' GROUP BY 1, 2)"
        " SELECT s.ride_id FROM steps s LEFT JOIN told t ON t.aggregate_id = s.ride_id"
        "   AND t.routing_key = s.news WHERE coalesce(t.count, 0) < s.count"
        f" AND (SELECT count(*) FROM told) < {LOOKED_AT // 2}",
    ),
    Invariant(
        number=8,
        name="nothing else was told",
        sentence="No event tells of a ride's step that was not taken.",
        query=f"WITH told AS (SELECT aggregate_id, routing_key, count(*) FROM ({_TOLD}) AS t"  # noqa: S608
        "   WHERE created_at > clock_timestamp() - interval '23 hours' GROUP BY 1, 2)"
        # A match is told when an acceptance has been settled: it is no step of the ride. Nor is a question
        # that nobody answered in time; that is geofences' to watch.
        " SELECT t.aggregate_id FROM told t"
        " WHERE t.routing_key NOT IN ('ride.matched', 'ride.confirmation_expired') AND t.count >"
        "   (SELECT count(*) FROM ride_events e WHERE e.ride_id = t.aggregate_id AND e.news = t.routing_key)",
    ),
    Invariant(
        number=12,
        name="no search goes on for ever",
        sentence="No ride is looked for past its deadline and two sweeps (20 s).",
        query="SELECT id FROM rides WHERE status IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND deadline_at < clock_timestamp() - interval '20 s'",
    ),
    Invariant(
        number=13,
        name="every acceptance has its attempt",
        sentence="One successful attempt for each accepted offer, and none besides.",
        query="SELECT coalesce(o.id, a.offer_id) AS offer_id"
        " FROM (SELECT id FROM ride_offers WHERE response = 'ACCEPTED') AS o"
        " FULL JOIN (SELECT offer_id, count(*) FROM ride_accept_attempts"
        "   WHERE status = 'SUCCESS' GROUP BY offer_id) AS a"
        " ON a.offer_id = o.id WHERE a.count IS DISTINCT FROM 1 OR o.id IS NULL",
    ),
)
