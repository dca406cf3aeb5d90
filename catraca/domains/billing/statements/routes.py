"""HTTP for statements."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.billing.charges.routes import Rules
from catraca.domains.billing.statements.schemas import StatementOut
from catraca.domains.billing.statements.service import read_statement
from catraca.platform.errors import Forbidden
from catraca.platform.forms import PageLimit
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

Before = Annotated[int | None, Query(ge=1, le=2**62, description="The previous page's `next`.")]

router = make_router(tags=["payments"], route_class=UnitOfWork)


@router.get(
    "/v1/drivers/{driver_id}/statement", summary="Read a driver's account", responses=problems(401, 403, 422)
)
async def read_driver_statement(
    driver_id: UUID, db: OpenDb, caller: Caller, rules: Rules, before: Before = None, limit: PageLimit = 50
) -> StatementOut:
    """Returns the balance and a page of what was posted to the account, to the driver and to operators."""
    if driver_id != caller.id and not caller.acts_for_others:
        raise Forbidden
    statement = await read_statement(db, driver_id, currency=rules.currency, before=before, limit=limit + 1)
    return StatementOut.of(statement, limit=limit)
