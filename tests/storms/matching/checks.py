"""Checks that a town's rides were matched correctly, by their stored history."""

from tests.storms.rides.checks import EVENTS

# The rounds of each ride with their deadlines.
ROUNDS = f"""
    SELECT aggregate_id AS ride_id, (headers ->> 'round')::integer AS round,
        (body ->> 'deadline_at')::timestamptz AS deadline_at
    FROM ({EVENTS}) t WHERE routing_key IN ('ride.requested', 'ride.reassigning')"""
# Acceptances, until the ride ended or was given up; and how long each offer held its driver.
ACCEPTED = """
    SELECT accepted.ride_id, accepted.round, accepted.actor_id AS driver_id, (
        SELECT min(e.at) FROM ride_events e WHERE e.ride_id = accepted.ride_id AND e.seq > accepted.seq
        AND (e.to_status IN ('COMPLETED', 'CANCELED') OR e.news = 'ride.reassigning')) AS until
    FROM ride_events accepted WHERE accepted.to_status = 'ACCEPTED'"""
HELD = f"""
    SELECT o.id, o.ride_id, o.driver_id, o.offered_at AS since,
        coalesce(CASE o.response WHEN 'ACCEPTED' THEN a.until ELSE o.responded_at END, 'infinity') AS until
    FROM ride_offers o LEFT JOIN ({ACCEPTED}) a USING (ride_id, round, driver_id)"""
# An acceptance handled later than this after the driver lost the ride may publish no match.
AT_ONCE = "interval '1 s'"


def promises(*, offers_at_once: int, offer_seconds: float) -> dict[str, str]:
    """The checks by name; each query must return no row."""
    return {
        "rides have not ended": """
            SELECT id, status FROM rides WHERE status NOT IN ('COMPLETED', 'CANCELED', 'EXPIRED')""",
        "rides have gaps in their rounds": f"""
            SELECT ride_id, array_agg(round ORDER BY round) FROM ({ROUNDS}) r GROUP BY 1
            HAVING max(round) <> count(*) OR count(DISTINCT round) <> count(*)""",
        "rides expired before the deadline, or without exactly one end event in the round": f"""
            SELECT ride_id, round, at, deadline_at, events FROM (
                SELECT ride_id, round, at FROM ride_events
                WHERE actor = 'system' AND to_status IN ('CANCELED', 'EXPIRED')) e
            FULL JOIN (
                SELECT aggregate_id AS ride_id, (headers ->> 'round')::integer AS round, count(*) AS events
                FROM ({EVENTS}) t WHERE routing_key IN ('matching.timeout', 'matching.no_drivers_available')
                GROUP BY 1, 2) t USING (ride_id, round)
            LEFT JOIN ({ROUNDS}) r USING (ride_id, round)
            WHERE at IS NULL OR events IS DISTINCT FROM 1 OR deadline_at IS NULL OR at < deadline_at""",
        "end events do not match whether an offer was open": f"""
            SELECT t.aggregate_id, routing_key FROM ({EVENTS}) t JOIN ({ROUNDS}) r
                ON r.ride_id = t.aggregate_id AND r.round = (t.headers ->> 'round')::integer
            WHERE routing_key IN ('matching.timeout', 'matching.no_drivers_available')
            AND (routing_key = 'matching.timeout') <> EXISTS (
                SELECT FROM ride_offers o WHERE o.ride_id = r.ride_id AND o.round = r.round
                AND o.expires_at >= r.deadline_at AND o.responded_at >= r.deadline_at)""",
        "drivers had two offers or rides at a time": f"""
            WITH held AS MATERIALIZED ({HELD})
            SELECT one.driver_id, one.ride_id, other.ride_id AS other_ride_id
            FROM held one JOIN held other ON other.driver_id = one.driver_id AND other.id > one.id
                AND other.since < one.until AND one.since < other.until""",
        "drivers got another offer after a refusal, a timeout or giving up": """
            SELECT later.ride_id, later.driver_id, earlier.response
            FROM ride_offers earlier JOIN ride_offers later USING (ride_id, driver_id)
            WHERE later.attempt > earlier.attempt
            AND (earlier.response IN ('REJECTED', 'EXPIRED', 'ACCEPTED') OR earlier.response IS NULL)""",
        "rides have gaps in the numbers of their offers": """
            SELECT ride_id, array_agg(attempt ORDER BY attempt) FROM ride_offers GROUP BY ride_id
            HAVING min(attempt) <> 1 OR max(attempt) <> count(*) OR count(DISTINCT attempt) <> count(*)""",
        f"offers were made while {offers_at_once} were live": f"""
            SELECT one.ride_id, one.attempt, count(*) FROM ride_offers one JOIN ride_offers live
                ON live.ride_id = one.ride_id AND live.offered_at <= one.offered_at
                AND coalesce(live.responded_at, 'infinity') > one.offered_at
            GROUP BY 1, 2 HAVING count(*) > {offers_at_once}""",
        "offers have a wrong expiry, or were made after the deadline": f"""
            SELECT o.ride_id, o.attempt, o.offered_at, o.expires_at, r.deadline_at
            FROM ride_offers o LEFT JOIN ({ROUNDS}) r USING (ride_id, round)
            WHERE deadline_at IS NULL OR offered_at >= deadline_at
            OR expires_at <> least(offered_at + {offer_seconds} * interval '1 s', deadline_at)""",
        "acceptances have no `ride.matched` event, two, or one of another driver": f"""
            SELECT a.ride_id, a.round, a.driver_id, a.until, matches, i.handled_at
            FROM ({ACCEPTED}) a
            JOIN ride_offers o ON o.ride_id = a.ride_id AND o.round = a.round AND o.response = 'ACCEPTED'
            FULL JOIN (
                SELECT aggregate_id AS ride_id, (headers ->> 'round')::integer AS round,
                    (body ->> 'driver_id')::uuid AS driver_id, count(*) AS matches
                FROM ({EVENTS}) t WHERE routing_key = 'ride.matched' GROUP BY 1, 2, 3) m
                ON m.ride_id = a.ride_id AND m.round = a.round AND m.driver_id = a.driver_id
            LEFT JOIN ({EVENTS}) t ON t.aggregate_id = o.id AND t.routing_key = 'matching.driver_accepted'
            LEFT JOIN inbox i ON i.event_id = t.id AND i.consumer = 'ride_updates_queue'
            WHERE a.ride_id IS NULL OR i.handled_at IS NULL OR matches > 1
            OR (matches IS NULL AND coalesce(a.until, 'infinity') > i.handled_at + {AT_ONCE})""",
        "searches are open after the ride, or are of another round": """
            SELECT m.ride_id, m.phase, m.round, r.round AS rides_round FROM matchings m
            JOIN rides r ON r.id = m.ride_id WHERE m.phase = 'searching' OR m.round <> r.round""",
        "timers were left": """
            SELECT kind, subject_id FROM timers WHERE kind LIKE 'matching.%' OR kind LIKE 'rides.%'""",
    }
