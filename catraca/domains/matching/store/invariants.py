"""What must hold of searches on a live system. News needs a moment to arrive: two sweeps (20 s) at most."""

from catraca.platform.database.event_invariants import LOOKED_AT
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld

# Whom the searches of a day, the newest of them, have offered a ride.
_OFFERED = (
    "SELECT s.id AS search_id, s.ride_id, s.round, s.radius_meters, (one->>'offer_id')::uuid AS offer_id,"  # noqa: S608
    "   (one->>'driver_id')::uuid AS driver_id, (one->>'distance_meters')::integer AS distance_meters"
    " FROM (SELECT * FROM matching_searches"
    "   WHERE outcome = 'asked' AND at > clock_timestamp() - interval '1 day'"
    f"  ORDER BY at DESC LIMIT {LOOKED_AT}) AS s CROSS JOIN jsonb_array_elements(s.seen) AS one"
    " WHERE one->>'verdict' = 'offered'"
)

INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="one search a ride",
        sentence="No ride is looked for twice at a time.",
        table="matchings",
        constraint="matchings_pkey",
        definition=("PRIMARY KEY (ride_id)",),
    ),
    ConstraintHeld(
        name="only who searches waits",
        sentence="A search that is over wakes nobody, and one that is not will wake.",
        table="matchings",
        constraint="only_who_searches_waits",
        definition=("wake_at IS NOT NULL", "next_search_at IS NULL"),
    ),
    Invariant(
        name="every search has its timer",
        sentence="No search depends on somebody who is alive now.",
        query="SELECT m.ride_id FROM matchings m WHERE m.phase = 'searching' AND NOT EXISTS"
        " (SELECT FROM timers t WHERE t.kind = 'matching.due' AND t.subject_id = m.ride_id)",
    ),
    Invariant(
        name="no open ride is forgotten",
        sentence="A driver is looked for, for every ride that is open, in its present round.",
        query="SELECT r.id FROM rides r WHERE r.status IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND r.updated_at < clock_timestamp() - interval '20 s' AND NOT EXISTS"
        " (SELECT FROM matchings m WHERE m.ride_id = r.id AND m.round = r.round AND m.phase = 'searching')",
    ),
    Invariant(
        name="no search outlives its ride",
        sentence="Nobody is looked for once a ride is taken or over.",
        query="SELECT m.ride_id FROM matchings m JOIN rides r ON r.id = m.ride_id WHERE m.phase = 'searching'"
        " AND r.status NOT IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND r.updated_at < clock_timestamp() - interval '20 s'",
    ),
    TriggerHeld(
        name="searches never change",
        sentence="What a search saw and did stays as it was written down.",
        table="matching_searches",
        trigger="searches_never_change",
        definition=("BEFORE UPDATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    ConstraintHeld(
        name="who asked nobody looks again",
        sentence="No look that led to no offer is the last one planned.",
        table="matching_searches",
        constraint="who_asked_nobody_looks_again",
        definition=("outcome = 'asked'::text", "next_at IS NOT NULL"),
    ),
    Invariant(
        name="every offer that counts was written down",
        sentence="A search has made as many offers as its looks say.",
        query="SELECT m.ride_id FROM matchings m WHERE m.phase = 'searching' AND m.offers <>"
        " (SELECT coalesce(sum((s.verdicts->>'offered')::integer), 0) FROM matching_searches s"
        "   WHERE s.ride_id = m.ride_id AND s.round = m.round AND s.search = m.search)",
    ),
    Invariant(
        name="every offer written down was made",
        sentence="Whoever a search says it asked has its offer, of that ride and round.",
        query=f"SELECT f.search_id FROM ({_OFFERED}) AS f WHERE NOT EXISTS (SELECT FROM ride_offers o"  # noqa: S608
        "   WHERE o.id = f.offer_id AND o.ride_id = f.ride_id AND o.round = f.round"
        "   AND o.driver_id = f.driver_id)",
    ),
    Invariant(
        name="nobody is asked in vain twice",
        sentence="Whoever refused a ride, did not answer or gave it up is not asked again by its search.",
        query=f"SELECT f.ride_id, f.driver_id FROM ({_OFFERED}) AS f JOIN ride_offers o ON o.id = f.offer_id"  # noqa: S608
        " WHERE EXISTS (SELECT FROM ride_offers p WHERE p.ride_id = o.ride_id AND p.driver_id = o.driver_id"
        "   AND p.attempt < o.attempt AND p.response IN ('REJECTED', 'EXPIRED', 'ACCEPTED'))",
    ),
    Invariant(
        name="nobody is asked from too far away",
        sentence="Whoever a search asked was within its radius.",
        query=f"SELECT search_id FROM ({_OFFERED}) AS f WHERE distance_meters > radius_meters",  # noqa: S608
    ),
    Invariant(
        name="passengers hear of their match",
        sentence="Of every ride under way that was accepted within a day, the match was told.",
        query="WITH told AS (SELECT aggregate_id, routing_key, headers FROM outbox UNION ALL"  # noqa: S608
        "   (SELECT aggregate_id, routing_key, headers FROM outbox_sent"
        f"   WHERE sent_at > clock_timestamp() - interval '1 day' ORDER BY sent_at DESC LIMIT {LOOKED_AT}))"
        " SELECT r.id FROM rides r WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        " AND r.accepted_at BETWEEN clock_timestamp() - interval '1 day'"
        "   AND clock_timestamp() - interval '20 s'"
        f" AND (SELECT count(*) FROM told) < {LOOKED_AT}"
        " AND (r.id, r.round) NOT IN (SELECT aggregate_id, (headers->>'round')::integer FROM told"
        "   WHERE routing_key = 'ride.matched')",
    ),
)
