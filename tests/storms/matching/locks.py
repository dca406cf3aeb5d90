"""Locks that rides left behind in Redis, and whether that could be helped."""

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

# Whoever finds Redis away looks again after a second, and it is never away for long.
AWAY = (timedelta(seconds=-1), timedelta(seconds=3))
# Beyond the longest that an offer's lock can last; what is left then became a ride's, for an hour.
GRACE_SECONDS = 6
# When the end of each driver's ride was looked at, which is when its lock is let go.
LET_GO = (
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
        moments = [row["handled_at"] for row in await db.fetch(LET_GO, ride_id)]
        if not any(map(partial(_was_away, away), moments)):
            broken.append(f"{driver_key} is held by ride {ride_id}, which was looked at {moments}")
    return broken


async def _locks(here: StormFleet) -> list[tuple[str, UUID]]:
    keys = await here.redis.command("KEYS", lock_key("*"))  # type: ignore[arg-type]
    assert isinstance(keys, list)
    found: list[tuple[str, UUID]] = []
    for key in keys:
        holder = await here.redis.command("HGET", key, "holder")
        if isinstance(holder, bytes):  # it may have ended since
            found.append((key.decode(), UUID(holder.decode())))
    return found


def _away_since(here: StormFleet) -> list[datetime]:
    """When a process first logged that Redis was unreachable."""
    lines = [line for line in here.office.log.read_text().splitlines() if '"redis_away"' in line]
    return [datetime.fromisoformat(json.loads(line)["timestamp"]) for line in lines]


def _was_away(away: Sequence[datetime], moment: datetime) -> bool:
    earlier, later = AWAY
    return any(since + earlier <= moment <= since + later for since in away)
