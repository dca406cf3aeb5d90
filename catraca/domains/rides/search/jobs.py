"""The timer of a ride."""

from uuid import UUID

from catraca.domains.rides.model import RideId
from catraca.domains.rides.search import service
from catraca.domains.rides.store import RIDE_DUE
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

fires = TimerHandlers()


@fires(RIDE_DUE)
async def expire_ride(db: Db, ride_id: UUID) -> None:
    await service.expire_ride(db, RideId(ride_id))
