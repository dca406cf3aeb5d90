"""Checks of the events, changes and effects in the database of `world.py`."""

from catraca.platform.database import Db
from tests.storms.checks import NOTHING_LEFT
from tests.storms.events import world

WANTED = "SELECT r.consumer, o.id AS event_id FROM outbox_sent o JOIN routes r ON r.key = o.routing_key"
# Each query must return no row.
CHECKS = {
    "changes do not have exactly one event, or events have no change": """
        SELECT * FROM (SELECT id, true AS is_changed FROM changes) c
        FULL JOIN (
            SELECT (body ->> 'change_id')::uuid AS id, count(*) AS events FROM outbox_sent GROUP BY 1) e
            USING (id)
        WHERE is_changed IS NULL OR events IS DISTINCT FROM 1""",
    "parcels have gaps in their numbers": """
        SELECT aggregate_id FROM outbox_sent GROUP BY aggregate_id
        HAVING min(seq) <> 1 OR max(seq) <> count(*) OR count(DISTINCT seq) <> count(*)""",
    "events were not applied exactly once by a consumer": f"""
        SELECT * FROM ({WANTED}) wanted
        FULL JOIN (SELECT consumer, event_id, count(*) AS times FROM applied GROUP BY 1, 2) done
            USING (consumer, event_id)
        WHERE wanted.event_id IS NULL OR times IS DISTINCT FROM 1""",
    "events were applied out of order": f"""
        SELECT aggregate_id, seq, after_seq FROM applied
        WHERE consumer = '{world.ORDERED.name}' AND after_seq <> seq - 1 ORDER BY serial""",
    **NOTHING_LEFT,
}


async def is_quiet(db: Db) -> bool:
    """True when every event was applied and no message is left."""
    return await db.fetchval(
        "SELECT NOT EXISTS (SELECT FROM outbox) AND NOT EXISTS (SELECT FROM bus_messages)"
        " AND NOT EXISTS (SELECT FROM bus_delayed)"
        f" AND (SELECT count(*) FROM applied) >= (SELECT count(*) FROM ({WANTED}) AS wanted)"
    )
