"""The timer of a charge: the end of its time to pay."""

from uuid import UUID

from catraca.domains.billing.charges.model import ChargeId
from catraca.domains.billing.charges.service import expire_charge
from catraca.domains.billing.charges.store import CHARGE_DUE
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

fires = TimerHandlers()


@fires(CHARGE_DUE)
async def expire(db: Db, charge_id: UUID) -> None:
    await expire_charge(db, ChargeId(charge_id))
