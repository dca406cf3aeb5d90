"""The patrol: keeps presence and the Redis index correct over time. Any number of processes may run it.

While Redis answers, a lease lets one process at a time patrol, because the work is the same for all of them.
Without the lease it is still correct: every change is guarded in PostgreSQL.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from prometheus_client import Gauge

from catraca.domains.communities import Fences
from catraca.domains.location import store as index
from catraca.domains.location.fence_crossings.model import CrossingRules
from catraca.domains.location.fence_crossings.service import DriverPing, record_crossings
from catraca.domains.location.model import DriverId
from catraca.domains.location.presence import service, store
from catraca.domains.location.presence.model import OnlineDriver
from catraca.domains.location.store import LastSeen
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Transact
from catraca.platform.ids import new_id
from catraca.platform.leases import acquire_lease, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient

log = structlog.get_logger()

PAGE = 1000
BEFORE_ALL = UUID(int=0)
REBUILD_LEASE = timedelta(seconds=10)

ONLINE = Gauge("catraca_location_drivers_online", "Online drivers.", multiprocess_mode="livemostrecent")
BUSY = Gauge(
    "catraca_location_drivers_busy",
    "Online drivers with an offer or a ride.",
    multiprocess_mode="livemostrecent",
)
IDLE = Gauge(
    "catraca_location_drivers_idle",
    "Online drivers without an offer or a ride for long.",
    multiprocess_mode="livemostrecent",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatrolRules:
    # Without a ping for so long, a driver is set offline.
    presence_timeout: timedelta = timedelta(seconds=60)
    # Free for so long, a driver is idle.
    idle_after: timedelta = timedelta(minutes=5)
    # Between two positions of one driver in PostgreSQL.
    position_interval: timedelta = timedelta(seconds=10)
    crossings: CrossingRules = field(default_factory=CrossingRules)


class Patrol:
    """Per-process service; safe to run in many processes."""

    def __init__(
        self, redis: RedisClient, transact: Transact, *, rules: PatrolRules, interval: timedelta
    ) -> None:
        self._redis = redis
        self._transact = transact
        self._rules = rules
        self._fences = Fences()
        self._interval = interval
        self._name = str(new_id())
        # When the index stopped answering.
        self._index_away_since: float | None = None

    async def rebuild_index(self) -> None:
        """Add all online drivers to an index that Redis lost, as seen now.

        So no driver expires because of the loss: a silent one expires a full timeout later.
        """
        if await index.is_complete(self._redis):
            return
        lease = await acquire_lease(self._redis, index.REBUILD_KEY, holder=self._name, ttl=REBUILD_LEASE)
        if lease is None:
            return
        first, after = lease, BEFORE_ALL
        while page := await self._page(after):
            drivers = {one.driver_id: one.ping for one in page}
            await index.add_drivers(self._redis, drivers, mode="NX")
            lease = await acquire_lease(self._redis, index.REBUILD_KEY, holder=self._name, ttl=REBUILD_LEASE)
            if lease is None or lease.fence != first.fence:
                return  # Redis was emptied again or the lease expired: the next call starts again.
            after = page[-1].driver_id
        await index.mark_complete(self._redis)
        await release_lease(self._redis, index.REBUILD_KEY, holder=self._name)
        log.info("driver_index_rebuilt")

    async def run(self) -> None:
        """Check all drivers, unless another process did within the interval."""
        with suppress(RedisAway):
            lease = await acquire_lease(self._redis, index.PATROL_KEY, holder=self._name, ttl=self._interval)
            if lease is None:
                return
        await self.check_all()

    async def check_all(self) -> None:
        """For every online driver: record fence crossings, write the position, expire the silent, count work.

        Crossings come before the position, because a driver without a stored position is seen for the first
        time.
        """
        online = busy = idle = 0
        after = BEFORE_ALL
        while page := await self._page(after):
            after = page[-1].driver_id
            seen = await self._last_seen(page)
            pings = _newest_pings(page, seen or {})
            await self._transact(
                partial(record_crossings, fences=self._fences, pings=pings, rules=self._rules.crossings)
            )
            await self._transact(
                partial(
                    service.write_last_seen,
                    drivers=page,
                    seen=seen or {},
                    position_interval=self._rules.position_interval,
                )
            )
            expired = await self._expire_silent(page, seen)
            page = [one for one in page if one.driver_id not in expired]
            work = await self._transact(
                partial(service.update_work, drivers=page, idle_after=self._rules.idle_after)
            )
            online, busy, idle = online + len(page), busy + work.busy, idle + work.idle
        ONLINE.set(online)
        BUSY.set(busy)
        IDLE.set(idle)
        with suppress(RedisAway):
            await self._remove_offline(online)

    async def _page(self, after: UUID) -> list[OnlineDriver]:
        return await self._transact(partial(store.online_page, after=after, limit=PAGE))

    async def _last_seen(self, page: Sequence[OnlineDriver]) -> dict[DriverId, LastSeen] | None:
        """The drivers in the index; None while Redis is down or the index is lost."""
        try:
            seen = await index.last_seen(self._redis, [one.driver_id for one in page])
            # Redis may have been down when a driver went online.
            missing = {one.driver_id: one.ping for one in page if one.driver_id not in seen}
            if missing:
                await index.add_drivers(self._redis, missing, mode="NX")
        except RedisAway:
            if self._index_away_since is None:
                self._index_away_since = monotonic_seconds()
            return None
        self._index_away_since = None
        return seen

    async def _expire_silent(
        self, page: Sequence[OnlineDriver], seen: Mapping[DriverId, LastSeen] | None
    ) -> set[DriverId]:
        timeout = self._rules.presence_timeout
        silent = [one.driver_id for one in page if one.silence > timeout]
        if seen is not None:
            silent = [one for one in silent if one not in seen or seen[one].silence > timeout]
        elif not self._is_index_away_for(timeout):
            return set()  # Times known only to Redis are lost; pings now go to PostgreSQL and replace them.
        if not silent:
            return set()
        expired = await self._transact(
            partial(service.expire_silent, driver_ids=silent, presence_timeout=timeout)
        )
        with suppress(RedisAway):
            await index.remove_drivers(self._redis, expired)
        return expired

    def _is_index_away_for(self, time: timedelta) -> bool:
        return (
            self._index_away_since is not None
            and monotonic_seconds() - self._index_away_since > time.total_seconds()
        )

    async def _remove_offline(self, online: int) -> None:
        """Remove drivers from the index who went offline while Redis was down."""
        if await index.count_drivers(self._redis) <= online:
            return
        cursor = -1
        while cursor != 0:
            cursor, ids = await index.scan_drivers(self._redis, max(cursor, 0))
            present = await self._transact(partial(store.online_among, driver_ids=ids))
            await index.remove_drivers(self._redis, set(ids) - present)


def _newest_pings(page: Sequence[OnlineDriver], seen: Mapping[DriverId, LastSeen]) -> list[DriverPing]:
    """Each driver's newest ping, from Redis or PostgreSQL; the first one while PostgreSQL has none."""
    newest: list[DriverPing] = []
    for driver in page:
        known = seen.get(driver.driver_id)
        pings = [ping for ping in (known and known.ping, driver.ping) if ping]
        if pings:
            ping = max(pings, key=lambda one: one.at)
            newest.append(DriverPing(driver.driver_id, ping, is_first=driver.ping is None))
    return newest
