"""HTTP for charges."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.billing.charges import service
from catraca.domains.billing.charges.model import BillingRules
from catraca.domains.billing.charges.schemas import ChargeOut
from catraca.domains.people import UserId
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

Rules = Annotated[BillingRules, Depends(wired(BillingRules))]

router = make_router(prefix="/v1/rides/{ride_id}/charge", tags=["payments"], route_class=UnitOfWork)


@router.get("", summary="Read a ride's charge", responses=problems(401, 404, 422))
async def read_charge(ride_id: UUID, db: OpenDb, caller: Caller) -> ChargeOut:
    """Returns the charge to the ride's parties and to operators. 404 until it is opened.

    It is opened shortly after the ride is completed.
    """
    charge = await service.read_charge(db, ride_id, caller_id=caller.id, sees_all=caller.acts_for_others)
    return ChargeOut.of(charge, caller_id=caller.id)


@router.post("/cash", summary="Confirm the fare in cash", responses=problems(401, 403, 404, 422))
async def confirm_cash(ride_id: UUID, db: OpenDb, caller: Caller, rules: Rules) -> ChargeOut:
    """The driver received the whole fare in cash. Charge and ride become `PAID`, also after `expires_at`.

    A repeat returns the charge as it is.
    """
    caller.require("driver")
    charge = await service.confirm_cash(db, ride_id, by=UserId(caller.id), rules=rules)
    return ChargeOut.of(charge, caller_id=caller.id)
