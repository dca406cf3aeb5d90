"""Personal data that location's features store."""

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from catraca.domains import people
from catraca.domains.location import store as index
from catraca.domains.location.fence_crossings import store as fence_crossings
from catraca.domains.location.model import DriverId
from catraca.domains.location.presence import store as presence
from catraca.domains.location.presence.model import Presence
from catraca.domains.location.sharing import store as sharing
from catraca.events import DriverOffline
from catraca.platform.database import Db, outbox
from catraca.platform.redis_client import RedisAway, RedisClient


def personal_data(redis: RedisClient) -> people.PersonalData:
    """A person's presence, last position, communities and trip links."""

    async def export(db: Db, user_id: people.UserId) -> object:
        driver_id = DriverId(user_id)
        known = (await presence.read_presence(db, [driver_id])).get(driver_id)
        links = await sharing.shares_of(db, user_id)
        if known is None and not links:
            return None
        states = (await fence_crossings.fence_states(db, [driver_id])).get(driver_id, {})
        return _fields(known) | {
            "communities": [
                {"community_id": community_id, **asdict(state)} for community_id, state in states.items()
            ],
            "shares": [asdict(link) for link in links],
        }

    async def erase(db: Db, user_id: people.UserId) -> None:
        since = await presence.go_offline(db, DriverId(user_id))
        await presence.erase(db, user_id)
        await sharing.erase(db, user_id)
        await outbox.round_places(db, [user_id])
        with suppress(RedisAway):  # While Redis is down, the next patrol removes the driver from the index.
            await index.remove_drivers(redis, [user_id])
        if since is not None:
            await outbox.record(db, DriverOffline(driver_id=user_id, reason="erased", timestamp=since))

    return people.PersonalData("location", export=export, erase=erase)


def _fields(known: Presence | None) -> dict[str, object]:
    return msgspec.to_builtins(known, builtin_types=(UUID, datetime, timedelta)) if known else {}
