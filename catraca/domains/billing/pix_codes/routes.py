"""HTTP for Pix codes."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path

from catraca.domains.billing.charges.schemas import ChargeOut
from catraca.domains.billing.pix_codes import service
from catraca.domains.billing.pix_codes.model import PixTerms
from catraca.domains.billing.pix_codes.schemas import PixCodeOut
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

Terms = Annotated[PixTerms, Depends(wired(PixTerms))]

router = make_router(tags=["payments"], route_class=UnitOfWork)


@router.get(
    "/v1/rides/{ride_id}/charge/pix",
    summary="Get the Pix code of a ride's charge",
    responses=problems(401, 404, 409, 422),
)
async def read_pix_code(ride_id: UUID, db: OpenDb, caller: Caller, terms: Terms) -> PixCodeOut:
    """Returns a Pix code for what is still due, to the ride's parties and to operators.

    The money arrives on the co-operative's account. The ride is `PAID` when an operator has confirmed it.
    """
    found = await service.read_pix_code(
        db, ride_id, caller_id=caller.id, sees_all=caller.acts_for_others, terms=terms
    )
    return PixCodeOut.of(found)


@router.get(
    "/v1/pix-codes/{reference}/charge",
    summary="Find the charge of a Pix reference",
    responses=problems(401, 403, 404, 422),
)
async def find_charge(
    reference: Annotated[str, Path(max_length=100)], db: OpenDb, operator: Operator
) -> ChargeOut:
    """Returns the charge whose Pix code has this reference, as it is on the bank's statement."""
    return ChargeOut.of(await service.find_charge(db, reference), caller_id=operator.id)
