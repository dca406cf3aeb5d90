"""Counts events like the consumer, and reads the rows that it writes."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from catraca.domains.analytics.model import AlertRule, CountedEvent, fact_of
from catraca.domains.analytics.service import count_events
from catraca.platform.database import Database
from catraca.platform.event import Event, key_of

RULE = AlertRule(percent=10, window=timedelta(hours=1), minimum=10)


class RolledBack(Exception):
    """A failure after the counting, in the same transaction."""


async def count(database: Database, *events: Event, rule: AlertRule = RULE) -> None:
    """Count all events in one transaction."""
    await database.run(lambda db: count_events(db, counted(events), rule=rule))


async def count_and_roll_back(database: Database, *events: Event) -> None:
    with suppress(RolledBack):
        async with database.transaction() as db:
            await count_events(db, counted(events), rule=RULE)
            raise RolledBack


def counted(events: Sequence[Event]) -> list[CountedEvent]:
    return [CountedEvent(key_of(type(event)), fact_of(event)) for event in events]


async def rows(database: Database, query: str) -> list[dict[str, Any]]:
    async with database.connection() as db:
        return [dict(row) for row in await db.fetch(query)]


async def demand(database: Database) -> list[dict[str, Any]]:
    return await rows(database, "SELECT * FROM demand ORDER BY hour, cell")


async def published(database: Database) -> Sequence[dict[str, Any]]:
    """The published alerts, in order."""
    found = await rows(database, "SELECT * FROM outbox WHERE exchange = 'analytics.events' ORDER BY position")
    return [msgspec.json.decode(row["body"]) for row in found]
