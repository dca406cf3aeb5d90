"""Expiry of confirmations."""

from uuid import UUID

from catraca.domains.geofences.confirmations import service
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

fires = TimerHandlers()


@fires(service.CONFIRMATION_DUE)
async def expire_confirmation(db: Db, confirmation_id: UUID) -> None:
    await service.expire_confirmation(db, confirmation_id)
