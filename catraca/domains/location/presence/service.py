"""Online and offline: changes in PostgreSQL with their events; the Redis index follows.

The index is changed before the commit, because nothing depends on it: drivers found there are checked in
PostgreSQL again, and the next ping or patrol corrects what is wrong in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from catraca.domains import people, rides
from catraca.domains.communities import Fences
from catraca.domains.location import store as index
from catraca.domains.location.errors import DriverMayNotDrive
from catraca.domains.location.fence_crossings.model import CrossingRules
from catraca.domains.location.fence_crossings.service import DriverPing, record_crossings
from catraca.domains.location.model import DriverId, Fault, Ping, PingRules, check_ping
from catraca.domains.location.presence import store
from catraca.domains.location.presence.model import DriverStatus, OnlineDriver
from catraca.domains.location.store import LastSeen
from catraca.events import DriverIdle, DriverOffline, DriverOnline
from catraca.platform.clock import now
from catraca.platform.database import Db, audit, outbox
from catraca.platform.redis_client import RedisAway, RedisClient


@dataclass(frozen=True, slots=True)
class PresenceParts:
    """What `set_status` needs of its process."""

    redis: RedisClient
    rules: PingRules
    fences: Fences


async def set_status(
    db: Db, parts: PresenceParts, driver_id: DriverId, *, online: bool, ping: Ping | None, by: UUID
) -> DriverStatus:
    """Set the driver online, at `ping` if that is sent and accepted, or offline.

    Safe to repeat: one event is published for a change, and a repeat with a later position counts as a ping.
    """
    if online:
        return await _go_online(db, parts, driver_id, ping, by)
    return await _go_offline(db, parts.redis, driver_id, by)


async def is_online(db: Db, driver_id: UUID) -> bool:
    return bool(await store.online_among(db, [driver_id]))


async def _go_online(
    db: Db, parts: PresenceParts, driver_id: DriverId, ping: Ping | None, by: UUID
) -> DriverStatus:
    if not await people.may_drive(db, people.UserId(driver_id)):
        raise DriverMayNotDrive
    known = (await store.read_presence(db, [driver_id])).get(driver_id)
    last = known.last if known and known.online else None
    fault = check_ping(ping, last, now=now(), rules=parts.rules) if ping else None
    accepted = None if fault else ping
    since = await store.go_online(db, driver_id, accepted)
    if since is None:
        status = await _stay_online(db, parts.redis, driver_id, accepted, fault)
    else:
        with suppress(RedisAway):
            await index.add_drivers(parts.redis, {driver_id: accepted}, mode="XX")
        await _audit(db, "driver_put_online", driver_id, by=by)
        place = accepted.place if accepted else None
        await outbox.record(
            db,
            DriverOnline(
                driver_id=driver_id,
                lat=place.lat if place else None,
                lng=place.lon if place else None,
                timestamp=since,
            ),
        )
        status = DriverStatus(True, since, fault)
    if accepted is not None and (since is not None or last is None):
        first = DriverPing(driver_id, accepted, is_first=True)
        # The default rules: none of them applies to a first ping.
        await record_crossings(db, parts.fences, [first], rules=CrossingRules())
    return status


async def _stay_online(
    db: Db, redis: RedisClient, driver_id: DriverId, accepted: Ping | None, fault: Fault | None
) -> DriverStatus:
    if accepted is not None:
        await store.write_positions(db, [store.PositionWrite(driver_id, accepted)])
    with suppress(RedisAway):
        await index.add_drivers(redis, {driver_id: accepted}, mode="NX" if accepted is None else "XX")
    found = (await store.read_presence(db, [driver_id]))[driver_id]
    return DriverStatus(True, found.since, fault)


async def _go_offline(db: Db, redis: RedisClient, driver_id: DriverId, by: UUID) -> DriverStatus:
    since = await store.go_offline(db, driver_id)
    with suppress(RedisAway):
        await index.remove_drivers(redis, [driver_id])
    if since is not None:
        await _audit(db, "driver_put_offline", driver_id, by=by)
        await outbox.record(db, DriverOffline(driver_id=driver_id, reason="asked", timestamp=since))
        return DriverStatus(False, since)
    known = (await store.read_presence(db, [driver_id])).get(driver_id)
    return DriverStatus(False, known.since if known else None)


async def _audit(db: Db, action: str, driver_id: DriverId, *, by: UUID) -> None:
    """Record a change that an operator or service made."""
    if by != driver_id:
        await audit.record(db, actor_id=by, action=action, subject_kind="user", subject_id=driver_id)


async def write_last_seen(
    db: Db,
    drivers: Sequence[OnlineDriver],
    seen: Mapping[DriverId, LastSeen],
    *,
    position_interval: timedelta,
) -> None:
    """Copy positions and times from the Redis index to PostgreSQL, once an interval for each driver.

    A driver's first position is copied at once.
    """
    writes: list[store.PositionWrite] = []
    silences: dict[DriverId, timedelta] = {}
    for driver in drivers:
        known = seen.get(driver.driver_id)
        if known is None:
            continue
        is_first = driver.ping is None and known.ping is not None
        if not is_first and driver.silence - known.silence < position_interval:
            continue
        if known.ping is not None and (driver.ping is None or known.ping.at > driver.ping.at):
            writes.append(store.PositionWrite(driver.driver_id, known.ping, known.silence))
        else:
            silences[driver.driver_id] = known.silence
    await write_positions(db, writes)
    if silences:
        await store.write_silences(db, silences)


async def write_positions(db: Db, writes: Sequence[store.PositionWrite]) -> None:
    """Write positions of online drivers, and add them to the tracks of their rides."""
    if not writes:
        return
    await store.write_positions(db, writes)
    points = [(write.driver_id, write.ping) for write in writes]
    await rides.extend_tracks(
        db,
        [rides.TrackPoint(driver_id, ping.place.lat, ping.place.lon, ping.at) for driver_id, ping in points],
    )


async def expire_silent(
    db: Db, driver_ids: Iterable[DriverId], *, presence_timeout: timedelta
) -> set[DriverId]:
    """Set drivers offline who are silent in PostgreSQL as well, with one event each; returns them."""
    expired = await store.expire_silent(db, driver_ids, silent_for=presence_timeout)
    await outbox.record(
        db,
        *(
            DriverOffline(driver_id=driver_id, reason="silent", timestamp=since)
            for driver_id, since in expired.items()
        ),
    )
    return set(expired)


@dataclass(frozen=True, slots=True)
class WorkCount:
    """Drivers with an offer or a ride, and drivers free for long."""

    busy: int
    idle: int


async def update_work(db: Db, drivers: Sequence[OnlineDriver], *, idle_after: timedelta) -> WorkCount:
    """Write which drivers became busy or free; publish one idle event for each long free time."""
    busy = await rides.busy_drivers(db, [one.driver_id for one in drivers])
    free = [one for one in drivers if one.driver_id not in busy]
    idle = [one for one in free if (one.free_for or timedelta(0)) > idle_after]
    if taken := [one.driver_id for one in drivers if one.driver_id in busy and one.free_for is not None]:
        await store.mark_busy(db, taken)
    if freed := [one.driver_id for one in free if one.free_for is None]:
        await store.mark_free(db, freed)
    if unpublished := [one.driver_id for one in idle if not one.idle_published]:
        marked = await store.mark_idle(db, unpublished, idle_after=idle_after)
        await outbox.record(
            db, *(DriverIdle(driver_id=driver_id, free_since=since) for driver_id, since in marked.items())
        )
    return WorkCount(len(busy), len(idle))
