"""HTTP for charges."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.billing.charges import service
from catraca.domains.billing.charges.model import BillingRules, Status
from catraca.domains.billing.charges.schemas import ChargeOut, ChargePage
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

Rules = Annotated[BillingRules, Depends(wired(BillingRules))]

router = make_router(tags=["payments"], route_class=UnitOfWork)


@router.get("/v1/rides/{ride_id}/charge", summary="Read a ride's charge", responses=problems(401, 404, 422))
async def read_charge(ride_id: UUID, db: OpenDb, caller: Caller) -> ChargeOut:
    """Returns the charge to the ride's parties and to operators. 404 until it is opened.

    It is opened shortly after the ride is completed.
    """
    charge = await service.read_charge(db, ride_id, caller_id=caller.id, sees_all=caller.acts_for_others)
    return ChargeOut.of(charge, caller_id=caller.id)


@router.get("/v1/charges", summary="List charges", responses=problems(401, 403, 422))
async def list_charges(
    db: OpenDb,
    operator: Operator,
    status: Status | None = None,
    before: PageCursor = None,
    limit: PageLimit = 50,
) -> ChargePage:
    """Returns a page of charges, newest first; with `status` only those in this state."""
    found = await service.list_charges(db, status=status, before=before, limit=limit + 1)
    return ChargePage.of(found, limit=limit, caller_id=operator.id)
