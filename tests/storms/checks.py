"""Checks of the database after a storm: each is a query that must return no row."""

from collections import Counter
from collections.abc import Mapping

from catraca.platform.database import Db

ROWS_SHOWN = 5
NOTHING_LEFT = {
    "events were never sent": "SELECT id, routing_key FROM outbox",
    "messages died": "SELECT queue, message_id, reason FROM dead_letters",
    "messages were left in queues": """
        SELECT queue, message_id FROM bus_messages UNION ALL SELECT queue, message_id FROM bus_delayed""",
}


async def failed_checks(db: Db, checks: Mapping[str, str]) -> list[str]:
    """The names of the failed checks, each with its first rows."""
    broken: list[str] = []
    for what, query in checks.items():
        if rows := await db.fetch(query):
            broken += [f"{len(rows)} {what}:", *(f"  {dict(row)}" for row in rows[:ROWS_SHOWN])]
    return broken


def listed(counts: Counter[str]) -> str:
    """`3 x accepted, 1 x rejected`, the most frequent first."""
    return ", ".join(f"{count} x {what}" for what, count in counts.most_common() if count)
