"""Locks that rides left in Redis, and whether an outage of Redis explains them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from catraca.domains.location.locks.service import lock_key
from catraca.platform.database import Db
from tests.servers import until
from tests.storms.fleet import StormFleet

# A process checks Redis again a second after a failure, and outages are short.
AWAY = (timedelta(seconds=-1), timedelta(seconds=3))
# Longer than an offer's lock can last; locks that are left then are of accepted rides, for an hour.
GRACE_SECONDS = 6
# When the end of a ride was handled: its locks are released then.
RELEASED = (
    "SELECT i.handled_at FROM outbox_sent t JOIN inbox i ON i.event_id = t.id"
    " WHERE i.consumer = 'ride_updates_queue' AND t.aggregate_id = $1"
    " AND t.routing_key IN ('ride.completed', 'ride.cancelled', 'ride.reassigning')"
)


async def broken_locks(here: StormFleet, db: Db, *, offer_seconds: float) -> list[str]:
    """Locks that are left although every ride is over and Redis was reachable."""

    async def are_gone() -> bool:
        return not await _locks(here)

    with suppress(TimeoutError):
        await until(are_gone, seconds=offer_seconds + GRACE_SECONDS)
    away = _away_since(here)
    broken: list[str] = []
    for driver_key, ride_id in await _locks(here):
        moments = [row["handled_at"] for row in await db.fetch(RELEASED, ride_id)]
        if not any(map(partial(_was_away, away), moments)):
            broken.append(f"{driver_key} is locked by ride {ride_id}, whose end was handled at {moments}")
    return broken


async def _locks(here: StormFleet) -> list[tuple[str, UUID]]:
    keys = await here.redis.command("KEYS", lock_key("*"))  # type: ignore[arg-type]
    assert isinstance(keys, list)
    found: list[tuple[str, UUID]] = []
    for key in keys:
        holder = await here.redis.command("HGET", key, "holder")
        if isinstance(holder, bytes):  # the lock may have ended since
            found.append((key.decode(), UUID(holder.decode())))
    return found


def _away_since(here: StormFleet) -> list[datetime]:
    """When a process first logged that Redis was unreachable."""
    lines = [line for line in here.office.log.read_text().splitlines() if '"redis_away"' in line]
    return [datetime.fromisoformat(json.loads(line)["timestamp"]) for line in lines]


def _was_away(away: Sequence[datetime], moment: datetime) -> bool:
    earlier, later = AWAY
    return any(since + earlier <= moment <= since + later for since in away)
