"""Drivers who come free wake the searches near by that wait."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains import location
from catraca.domains.location import cells_around
from catraca.domains.matching.model import Rules
from catraca.domains.matching.store import matchings as store
from catraca.platform.database import Db, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.geo import Place
from catraca.platform.redis_client import RedisClient

MATCHING_WAKE = TimerKind("matching.wake")
# One driver can take one ride; a few more are woken, should the first not want them.
WOKEN_AT_MOST = 3


async def wake_around(db: Db, *places: Place, rules: Rules, but: UUID | None = None) -> None:
    """Have the searches look at once that have waited longest and reach one of these places.

    But one: the ride that this driver has just been through.
    """
    woken: set[UUID] = set()
    for place in places:
        cells = cells_around(place, rules.max_radius_meters)
        woken.update(await store.waiting_near(db, place, cells, rules=rules, but=but, limit=WOKEN_AT_MOST))
    if woken:  # all in one statement: two who set the same timers one by one may wait for each other
        await timers.set_timer(db, MATCHING_WAKE, *woken, due_in=timedelta(0))


async def wake_around_drivers(
    db: Db, redis: RedisClient, driver_ids: Sequence[UUID], *, rules: Rules, but: UUID | None = None
) -> None:
    """The same, around wherever the first few of these drivers were last."""
    known = [await location.last_place(db, redis, one) for one in driver_ids[:WOKEN_AT_MOST]]
    await wake_around(db, *(place for place in known if place is not None), rules=rules, but=but)
