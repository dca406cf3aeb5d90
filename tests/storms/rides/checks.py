"""Checks that rides, offers, attempts, steps, events and the answers to callers agree."""

from collections.abc import Callable, Iterable, Mapping

from catraca.platform.database import Db, Row
from tests.storms.checks import NOTHING_LEFT, failed_checks
from tests.storms.rides.ledger import Ledger, Try, code_of

SHOWN = 5
EVENTS = (
    "SELECT id, aggregate_id, seq, exchange, routing_key, headers, body FROM outbox WHERE queue IS NULL"
    " UNION ALL"
    " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body FROM outbox_sent WHERE queue IS NULL"
)
# Events of location are not in the audit log.
AUDITED = "exchange <> 'location.events'"
# Each query must return no row.
CHECKS = {
    "acceptances do not have one step, offer, attempt and event of one driver": f"""
        SELECT * FROM (
            SELECT ride_id, round, actor_id AS driver_id, at, true AS stepped FROM ride_events
            WHERE to_status = 'ACCEPTED') s
        FULL JOIN (
            SELECT ride_id, round, driver_id, responded_at AS at, true AS offered FROM ride_offers
            WHERE response = 'ACCEPTED') o USING (ride_id, round, driver_id, at)
        FULL JOIN (
            SELECT a.ride_id, o.round, a.driver_id, a.completed_at AS at, count(*) AS attempts
            FROM ride_accept_attempts a JOIN ride_offers o ON o.id = a.offer_id
            WHERE a.status = 'SUCCESS' GROUP BY 1, 2, 3, 4) a USING (ride_id, round, driver_id, at)
        FULL JOIN (
            SELECT aggregate_id AS ride_id, (headers ->> 'round')::integer AS round,
                (body ->> 'driver_id')::uuid AS driver_id, (body ->> 'accepted_at')::timestamptz AS at,
                count(*) AS events
            FROM ({EVENTS}) t WHERE routing_key = 'ride.accepted' GROUP BY 1, 2, 3, 4) t
            USING (ride_id, round, driver_id, at)
        WHERE stepped IS NULL OR offered IS NULL OR attempts IS DISTINCT FROM 1
        OR events IS DISTINCT FROM 1""",
    "rides were accepted twice in a round": """
        SELECT ride_id, round FROM ride_events WHERE to_status = 'ACCEPTED'
        GROUP BY 1, 2 HAVING count(*) > 1""",
    "rides have another driver than the last one who accepted": """
        SELECT r.id, r.accepted_driver_id FROM rides r LEFT JOIN LATERAL (
            SELECT to_status, actor_id FROM ride_events e
            WHERE e.ride_id = r.id AND (to_status = 'ACCEPTED' OR news = 'ride.reassigning')
            ORDER BY seq DESC LIMIT 1) last ON true
        WHERE r.accepted_driver_id IS DISTINCT FROM CASE last.to_status WHEN 'ACCEPTED' THEN actor_id END""",
    "events of rides differ from their steps": f"""
        SELECT * FROM (
            SELECT ride_id, array_agg(news ORDER BY seq) AS steps FROM ride_events
            WHERE news LIKE 'ride.%' GROUP BY 1) s
        FULL JOIN (
            SELECT aggregate_id AS ride_id, array_agg(routing_key ORDER BY seq) AS news FROM ({EVENTS}) t
            WHERE exchange = 'rides.events'
            AND routing_key NOT IN ('ride.matched', 'ride.confirmation_expired', 'ride.flagged')
            GROUP BY 1) t USING (ride_id)
        WHERE steps IS DISTINCT FROM news""",
    "events of offers differ from their start and end": f"""
        SELECT * FROM (
            SELECT id, ARRAY['matching.candidate_found', CASE response
                WHEN 'ACCEPTED' THEN 'matching.driver_accepted'
                WHEN 'REJECTED' THEN 'matching.driver_rejected'
                WHEN 'EXPIRED' THEN 'matching.driver_timeout'
                WHEN 'CANCELED' THEN 'offer.canceled' END] AS ends
            FROM ride_offers) o
        FULL JOIN (
            SELECT aggregate_id AS id, array_agg(routing_key ORDER BY seq) AS news FROM ({EVENTS}) t
            WHERE exchange = 'matching.events' AND body ->> 'offer_id' IS NOT NULL
            AND routing_key <> 'matching.offer_sent' GROUP BY 1) t USING (id)
        WHERE ends IS DISTINCT FROM news""",
    "events do not have exactly one line in the audit log, or lines have no event": f"""
        SELECT * FROM (
            SELECT id, routing_key AS action, true AS is_event FROM ({EVENTS}) t WHERE {AUDITED}) e
        FULL JOIN (
            SELECT (data ->> 'event_id')::uuid AS id, action, count(*) AS lines FROM audit_log
            WHERE data ? 'event_id' GROUP BY 1, 2) a USING (id, action)
        WHERE is_event IS NULL OR lines IS DISTINCT FROM 1""",
    "attempts failed because of an acceptance that does not exist": """
        SELECT a.ride_id, a.driver_id, a.failure_reason FROM ride_accept_attempts a
        WHERE a.failure_reason IN ('ride_already_accepted', 'accepted_by_you') AND NOT EXISTS (
            SELECT FROM ride_events e WHERE e.ride_id = a.ride_id AND e.to_status = 'ACCEPTED'
            AND e.at <= a.completed_at
            AND (e.actor_id = a.driver_id) = (a.failure_reason = 'accepted_by_you'))""",
    "attempts failed as too late for an accepted or unexpired offer": """
        SELECT a.ride_id, a.driver_id, o.response FROM ride_accept_attempts a
        LEFT JOIN ride_offers o ON o.id = a.offer_id
        WHERE a.failure_reason = 'offer_expired'
        AND (o.id IS NULL OR o.response = 'ACCEPTED' OR a.completed_at < least(
            o.expires_at, CASE WHEN o.reason = 'driver_offline' THEN o.responded_at END))""",
    "attempts failed without a cause, for a live offer of an open ride": """
        SELECT a.ride_id, a.driver_id, a.ride_status FROM ride_accept_attempts a
        JOIN ride_offers o ON o.id = a.offer_id
        WHERE a.failure_reason = 'ride_cannot_be_accepted'
        AND (o.responded_at IS NULL OR o.responded_at > a.completed_at)""",
    "attempts failed as `offer_not_received`, with an offer": """
        SELECT ride_id, driver_id FROM ride_accept_attempts
        WHERE (failure_reason = 'offer_not_received') <> (offer_id IS NULL)""",
    **NOTHING_LEFT,
}


async def is_quiet(db: Db) -> bool:
    """True when every offer has ended and every event was published and audited."""
    return await db.fetchval(
        "SELECT NOT EXISTS (SELECT FROM outbox) AND NOT EXISTS (SELECT FROM bus_messages)"
        " AND NOT EXISTS (SELECT FROM bus_delayed)"
        " AND NOT EXISTS (SELECT FROM ride_offers WHERE response IS NULL)"
        f" AND (SELECT count(*) FROM outbox_sent WHERE queue IS NULL AND {AUDITED})"
        "   <= (SELECT count(*) FROM audit_log WHERE data ? 'event_id')"
    )


async def broken_by(db: Db, ledger: Ledger) -> list[str]:
    """The failed checks, each with its first findings."""
    rows = await db.fetch(
        "SELECT ride_id, driver_id, offer_id, idempotency_key, status, failure_reason, completed_at"
        " FROM ride_accept_attempts"
    )
    found = {
        Try(row["ride_id"], row["driver_id"], row["offer_id"], row["idempotency_key"]): row for row in rows
    }
    broken: list[str] = []
    for what, judge in VERDICTS.items():
        if offending := list(judge(ledger, found)):
            broken += [f"{len(offending)} {what}:", *(f"  {one}" for one in offending[:SHOWN])]
    return [*broken, *await failed_checks(db, CHECKS)]


def _unrecorded(ledger: Ledger, found: Mapping[Try, Row]) -> Iterable[Try]:
    return ledger.answers.keys() - found.keys()


def _unsent(ledger: Ledger, found: Mapping[Try, Row]) -> Iterable[Try]:
    return found.keys() - ledger.answers.keys()


def _wrong_answers(ledger: Ledger, found: Mapping[Try, Row]) -> Iterable[str]:
    for tried in ledger.answers.keys() & found.keys():
        answered, row = code_of(ledger.answers[tried]), found[tried]
        if answered != (row["failure_reason"] or "accepted"):
            yield f"{tried}: answered {answered}, recorded {row['failure_reason'] or row['status']}"


VERDICTS: dict[str, Callable[[Ledger, Mapping[Try, Row]], Iterable[object]]] = {
    "answered attempts are not recorded": _unrecorded,
    "recorded attempts were not sent": _unsent,
    "answers differ from the recorded outcomes": _wrong_answers,
}
