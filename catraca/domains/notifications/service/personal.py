"""What is kept of people with what they were told."""

from uuid import UUID

import msgspec

from catraca.domains.notifications.store import notifications as store
from catraca.domains.notifications.store import subscriptions
from catraca.domains.people import PersonalData, UserId
from catraca.platform.database import Db

TOLD = 1000


async def _export(db: Db, user_id: UserId) -> object:
    """What the person was told, the newest first."""
    found = await store.page_of(db, user_id, since=None, before=None, unread=False, limit=TOLD)
    return [
        {
            "seq": one.seq,
            "type": one.type,
            "data": msgspec.json.decode(one.data),
            "created_at": one.created_at,
        }
        for one in found
    ]


async def _erase(db: Db, user_id: UUID) -> None:
    """What the person was told, their name in what others were told, and their devices."""
    await store.forget(db, user_id)
    await subscriptions.forget_devices(db, user_id)


PERSONAL_DATA = PersonalData("notifications", export=_export, erase=_erase)
