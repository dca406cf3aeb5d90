"""What time does to rides."""

from uuid import UUID

from catraca.domains.rides.model import RideId
from catraca.domains.rides.service import due
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

fires = TimerHandlers()


@fires(due.RIDE_DUE)
async def settle_due(db: Db, ride_id: UUID) -> None:
    await due.settle_due(db, RideId(ride_id))
