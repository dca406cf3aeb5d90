"""What became of the news in the world of `news.py`, by the database alone."""

from collections.abc import Mapping

from catraca.platform.database import Db
from tests.support import news

WANTED = "SELECT r.consumer, o.id AS event_id FROM outbox_sent o JOIN routes r ON r.key = o.routing_key"
# Each answers what breaks the promise: no row is as it should be.
NOTHING_LEFT = {
    "events were never sent": "SELECT id, routing_key FROM outbox",
    "messages died": "SELECT queue, message_id, reason FROM dead_letters",
    "messages were left in queues": """
        SELECT queue, message_id FROM bus_messages UNION ALL SELECT queue, message_id FROM bus_delayed""",
}
PROMISES = {
    "changes have not exactly one event, or events no change": """
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
        WHERE consumer = '{news.ORDERED.name}' AND after_seq <> seq - 1 ORDER BY serial""",
    **NOTHING_LEFT,
}


async def broken_promises(db: Db, promises: Mapping[str, str] = PROMISES) -> list[str]:
    """What is wrong, with the first few rows that show it."""
    broken: list[str] = []
    for what, query in promises.items():
        if rows := await db.fetch(query):
            broken += [f"{len(rows)} {what}:", *(f"  {dict(row)}" for row in rows[:5])]
    return broken


async def is_quiet(db: Db) -> bool:
    """Whether everything that was written has been applied and nothing is under way any more."""
    return await db.fetchval(
        "SELECT NOT EXISTS (SELECT FROM outbox) AND NOT EXISTS (SELECT FROM bus_messages)"
        " AND NOT EXISTS (SELECT FROM bus_delayed)"
        f" AND (SELECT count(*) FROM applied) >= (SELECT count(*) FROM ({WANTED}) AS wanted)"
    )
