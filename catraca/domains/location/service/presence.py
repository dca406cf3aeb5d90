"""Being at work or not: a guarded change in PostgreSQL with its event; the map in Redis follows.

The map is changed before the commit, for nothing depends on it: whoever it proposes is asked for in
PostgreSQL again, and what it has wrong is put right by the next ping or patrol (`jobs.py`).
"""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains import people
from catraca.domains.communities import EdgeRules, Fences
from catraca.domains.location.errors import DriverMayNotDrive
from catraca.domains.location.model import DriverId, Fault, Ping, PingRules, judge
from catraca.domains.location.service import fencing
from catraca.domains.location.store import communities, index, presence, shares
from catraca.events import DriverOffline, DriverOnline
from catraca.platform.clock import now
from catraca.platform.database import Db, audit, outbox
from catraca.platform.redis_client import RedisAway, RedisClient


@dataclass(frozen=True, slots=True)
class Standing:
    """Since when a driver is online or not, and why the position that came along was not taken."""

    online: bool
    since: datetime | None
    fault: Fault | None = None


async def go_online(
    db: Db,
    redis: RedisClient,
    driver_id: DriverId,
    *,
    ping: Ping | None,
    rules: PingRules,
    fences: Fences,
    by: UUID,
) -> Standing:
    """Begin to work. Safe to repeat: it is told once, and a later position counts as a ping.

    Whoever says where is of the communities there at once.
    """
    if not await people.may_drive(db, people.UserId(driver_id)):
        raise DriverMayNotDrive
    known = (await presence.read_presence(db, [driver_id])).get(driver_id)
    last = known.last if known and known.online else None
    fault = judge(ping, last, now=now(), rules=rules) if ping else None
    taken = None if fault else ping
    since = await presence.go_online(db, driver_id, taken)
    if since is None:
        standing = await _go_on(db, redis, driver_id, taken, fault)
        if last is None:
            await _settle_first(db, fences, driver_id, taken)
        return standing
    with suppress(RedisAway):
        await index.show(redis, {driver_id: taken}, mode="XX")
    await _audit(db, "driver_put_online", driver_id, by=by)
    place = taken.place if taken else None
    await outbox.record(
        db,
        DriverOnline(
            driver_id=driver_id,
            lat=place.lat if place else None,
            lng=place.lon if place else None,
            timestamp=since,
        ),
    )
    await _settle_first(db, fences, driver_id, taken)
    return Standing(True, since, fault)


async def _settle_first(db: Db, fences: Fences, driver_id: DriverId, taken: Ping | None) -> None:
    if taken is not None:
        seen = fencing.Seen(driver_id, taken, is_first=True)
        # Whatever the rules are: the first sighting decides alone.
        await fencing.settle_communities(db, fences, [seen], rules=EdgeRules())


async def _go_on(
    db: Db, redis: RedisClient, driver_id: DriverId, taken: Ping | None, fault: Fault | None
) -> Standing:
    if taken is not None:
        await presence.write_positions(db, [presence.Move(driver_id, taken)])
    with suppress(RedisAway):
        await index.show(redis, {driver_id: taken}, mode="NX" if taken is None else "XX")
    found = (await presence.read_presence(db, [driver_id]))[driver_id]
    return Standing(True, found.since, fault)


async def go_offline(db: Db, redis: RedisClient, driver_id: DriverId, *, by: UUID) -> Standing:
    """Stop working. Safe to repeat: it is told once."""
    since = await presence.go_offline(db, driver_id)
    with suppress(RedisAway):
        await index.hide(redis, [driver_id])
    if since is not None:
        await _audit(db, "driver_put_offline", driver_id, by=by)
        await outbox.record(db, DriverOffline(driver_id=driver_id, reason="asked", timestamp=since))
        return Standing(False, since)
    known = (await presence.read_presence(db, [driver_id])).get(driver_id)
    return Standing(False, known.since if known else None)


async def _audit(db: Db, action: str, driver_id: DriverId, *, by: UUID) -> None:
    if by != driver_id:
        await audit.record(db, actor_id=by, action=action, subject_kind="user", subject_id=driver_id)


def personal_data(redis: RedisClient) -> people.PersonalData:
    """What location keeps of a person: being at work, the last position, in which communities that is, and
    links to their trips.
    """

    async def export(db: Db, user_id: people.UserId) -> object:
        known = (await presence.read_presence(db, [user_id])).get(DriverId(user_id))
        links = await shares.shares_of(db, user_id)
        if known is None and not links:
            return None
        around = (await communities.whereabouts_of(db, [user_id])).get(DriverId(user_id), {})
        return (asdict(known) if known else {}) | {
            "communities": [
                {"community_id": community_id, **asdict(one)} for community_id, one in around.items()
            ],
            "shares": [asdict(link) for link in links],
        }

    async def erase(db: Db, user_id: people.UserId) -> None:
        await _erase(db, redis, user_id)

    return people.PersonalData("location", export=export, erase=erase)


async def _erase(db: Db, redis: RedisClient, user_id: UUID) -> None:
    since = await presence.go_offline(db, DriverId(user_id))
    await presence.erase(db, user_id)
    await shares.erase(db, user_id)
    with suppress(RedisAway):  # if it comes back with what it knew, the next patrol finds the stray
        await index.hide(redis, [user_id])
    if since is not None:
        await outbox.record(db, DriverOffline(driver_id=user_id, reason="erased", timestamp=since))
