"""What keeps presence and the map true by the passing of time; any number of processes may run it.

A patrol goes past everybody online, a page at a time. While Redis answers, one process at a time goes, for it
is the same work for all; what it changes is guarded in PostgreSQL all the same.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from prometheus_client import Gauge

from catraca.domains.communities import Fences
from catraca.domains.location.model import DriverId
from catraca.domains.location.service import fencing, keeping
from catraca.domains.location.service.keeping import Rhythm
from catraca.domains.location.store import index, presence, shares
from catraca.domains.location.store.index import LastHeard
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db, Row, Transact
from catraca.platform.ids import new_id
from catraca.platform.leases import acquire_lease, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient

log = structlog.get_logger()

PAGE = 1000
NOBODY = UUID(int=0)
FILL_LEASE = timedelta(seconds=10)

ONLINE = Gauge("catraca_location_drivers_online", "Drivers at work.", multiprocess_mode="livemostrecent")
BUSY = Gauge(
    "catraca_location_drivers_busy",
    "Drivers at work whom an offer or a ride holds.",
    multiprocess_mode="livemostrecent",
)
IDLE = Gauge(
    "catraca_location_drivers_idle",
    "Drivers at work whom nobody has wanted for long.",
    multiprocess_mode="livemostrecent",
)


class Keeper:
    """One process's hand in it."""

    def __init__(
        self, redis: RedisClient, transact: Transact, *, rhythm: Rhythm, patrol_interval: timedelta
    ) -> None:
        self._redis = redis
        self._transact = transact
        self._rhythm = rhythm
        self._fences = Fences()
        self._patrol_interval = patrol_interval
        self._name = str(new_id())
        self._blind_since: float | None = None

    async def fill_map(self) -> None:
        """After Redis has lost its memory: everybody online is put on the map again, as just heard of.

        Nobody must be taken for silent because Redis forgot; whoever is, will be silent for long enough.
        """
        if await index.is_whole(self._redis):
            return
        lease = await acquire_lease(self._redis, index.FILL_KEY, holder=self._name, ttl=FILL_LEASE)
        if lease is None:
            return
        first, after = lease, NOBODY
        while page := await self._page(after):
            drivers = {row["driver_id"]: presence.ping_of(row) for row in page}
            await index.show(self._redis, drivers, mode="NX")
            lease = await acquire_lease(self._redis, index.FILL_KEY, holder=self._name, ttl=FILL_LEASE)
            if lease is None or lease.fence != first.fence:
                return  # it was emptied once more, or we were too slow: the next look begins anew
            after = page[-1]["driver_id"]
        await index.mark_whole(self._redis)
        await release_lease(self._redis, index.FILL_KEY, holder=self._name)
        log.info("map_filled")

    async def patrol(self) -> None:
        """Go past everybody, unless another process has done so just now."""
        with suppress(RedisAway):
            lease = await acquire_lease(
                self._redis, index.PATROL_KEY, holder=self._name, ttl=self._patrol_interval
            )
            if lease is None:
                return
        await self.go_past_all()

    async def go_past_all(self) -> None:
        """Look at everybody online: write down where they are, let the silent go, notice who is busy.

        Before a position is written down it is settled in which communities that is: where nothing was
        written yet, nothing was settled.
        """
        online = busy = idle = 0
        after = NOBODY
        while page := await self._page(after):
            after = page[-1]["driver_id"]
            heard = await self._last_heard(page)
            seen = fencing.seen_on(page, heard or {})
            await self._transact(
                partial(fencing.settle_communities, fences=self._fences, seen=seen, rules=self._rhythm.edges)
            )
            await self._transact(
                partial(keeping.write_last_heard, page=page, heard=heard or {}, rhythm=self._rhythm)
            )
            gone = await self._let_go(page, heard)
            page = [row for row in page if row["driver_id"] not in gone]
            work = await self._transact(partial(keeping.note_work, page=page, rhythm=self._rhythm))
            online, busy, idle = online + len(page), busy + work.busy, idle + work.idle
        ONLINE.set(online)
        BUSY.set(busy)
        IDLE.set(idle)
        with suppress(RedisAway):
            await self._remove_strays(online)

    async def _page(self, after: UUID) -> list[Row]:
        return await self._transact(partial(presence.online_page, after=after, limit=PAGE))

    async def _last_heard(self, page: Sequence[Row]) -> dict[DriverId, LastHeard] | None:
        """What the map says of them; None while there is no map to ask."""
        ids: list[DriverId] = [row["driver_id"] for row in page]
        try:
            heard = await index.last_heard(self._redis, ids)
            # Redis may have been away when somebody began to work.
            missing = {
                row["driver_id"]: presence.ping_of(row) for row in page if row["driver_id"] not in heard
            }
            if missing:
                await index.show(self._redis, missing, mode="NX")
        except RedisAway:
            if self._blind_since is None:
                self._blind_since = monotonic_seconds()
            return None
        self._blind_since = None
        return heard

    async def _let_go(self, page: Sequence[Row], heard: Mapping[DriverId, LastHeard] | None) -> set[DriverId]:
        timeout = self._rhythm.presence_timeout
        silent: list[DriverId] = [row["driver_id"] for row in page if row["silence"] > timeout]
        if heard is not None:
            silent = [one for one in silent if one not in heard or heard[one].silence > timeout]
        elif not self._is_blind_for(timeout):
            return set()  # what Redis knew is not yet in PostgreSQL; pings are on their way there
        if not silent:
            return set()
        gone = await self._transact(partial(keeping.expire_silent, driver_ids=silent, rhythm=self._rhythm))
        with suppress(RedisAway):
            await index.hide(self._redis, gone)
        return gone

    def _is_blind_for(self, time: timedelta) -> bool:
        return (
            self._blind_since is not None and monotonic_seconds() - self._blind_since > time.total_seconds()
        )

    async def _remove_strays(self, online: int) -> None:
        """Who is on the map and not at work: Redis was away when they stopped, and remembers."""
        if await index.count(self._redis) <= online:
            return
        cursor = -1
        while cursor != 0:
            cursor, ids = await index.some(self._redis, max(cursor, 0))
            there = await self._transact(partial(presence.online_among, driver_ids=ids))
            await index.hide(self._redis, set(ids) - there)


async def prune_shares(db: Db, *, limit: int = 1000) -> int:
    """Drop links to trips that have expired, a bounded number at a time; answers how many."""
    return await shares.prune(db, limit=limit)
