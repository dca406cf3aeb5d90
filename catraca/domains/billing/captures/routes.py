"""HTTP for money that was received."""

from uuid import UUID

from catraca.domains.billing.captures import service
from catraca.domains.billing.captures.schemas import BookedOut, CaptureOut, CapturesOut, ReceiptIn
from catraca.domains.billing.charges.routes import Rules
from catraca.domains.billing.charges.schemas import ChargeOut
from catraca.domains.people import UserId
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(tags=["payments"], route_class=UnitOfWork)


@router.post(
    "/v1/rides/{ride_id}/charge/cash",
    summary="Confirm the fare in cash",
    responses=problems(401, 403, 404, 422),
)
async def confirm_cash(ride_id: UUID, db: OpenDb, caller: Caller, rules: Rules) -> ChargeOut:
    """The driver received what was still due in cash. Charge and ride become `PAID`, also after `expires_at`.

    A repeat returns the charge as it is.
    """
    caller.require("driver")
    charge = await service.confirm_cash(db, ride_id, by=UserId(caller.id), rules=rules)
    return ChargeOut.of(charge, caller_id=caller.id)


@router.post(
    "/v1/charges/{charge_id}/captures",
    summary="Confirm money on the bank account",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def confirm_receipt(charge_id: UUID, body: ReceiptIn, db: OpenDb, operator: Operator) -> BookedOut:
    """An operator has seen this payment on the bank's statement. Each reference is booked once; audited.

    A part leaves the rest due. What is beyond the charge is excess, also if the charge was paid before. A
    repeat returns the same capture.
    """
    capture, charge = await service.confirm_receipt(db, charge_id, body.receipt(by=operator.id))
    return BookedOut.of(capture, charge, caller_id=operator.id)


@router.get(
    "/v1/charges/{charge_id}/captures",
    summary="Read what was received for a charge",
    responses=problems(401, 403, 404, 422),
)
async def list_captures(charge_id: UUID, db: OpenDb, operator: Operator) -> CapturesOut:
    """Returns the charge and what was received for it."""
    charge, captures = await service.read_captures(db, charge_id)
    return CapturesOut(
        charge=ChargeOut.of(charge, caller_id=operator.id),
        captures=[CaptureOut.of(capture) for capture in captures],
    )
