"""HTTP for e-mail changes, which begin with `PATCH /v1/me`."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Response

from catraca.domains.people.email_changes import service
from catraca.domains.people.email_changes.model import EmailCodes
from catraca.domains.people.email_changes.schemas import EmailCodeIn
from catraca.domains.people.model import UserId
from catraca.domains.people.schemas import UserOut
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import InTransaction, OpenDb, Staged, UnitOfWork, make_router, wired

Codes = Annotated[EmailCodes, Depends(wired(EmailCodes))]

router = make_router(prefix="/v1", route_class=UnitOfWork)
# A wrong code is counted in a transaction of its own, which commits.
staged_router = make_router(prefix="/v1", route_class=Staged)
ROUTERS = [staged_router, router]


@staged_router.post(
    "/me/email/confirm",
    tags=["me"],
    summary="Confirm my new e-mail address",
    status_code=204,
    response_class=Response,
    responses=problems(401, 409, 422),
)
async def confirm_email(body: EmailCodeIn, caller: Caller, transact: InTransaction, codes: Codes) -> None:
    """Takes the code of the letter to the new address, which then replaces the present one.

    A code can be tried five times within a day; then change the address again.
    """
    await service.confirm_change(transact, UserId(caller.id), codes, body.code)


@router.post(
    "/users/{user_id}/email/confirm",
    tags=["people"],
    summary="Confirm a user's new e-mail address",
    responses=problems(401, 403, 404, 409, 422),
)
async def confirm_email_of_user(user_id: UUID, db: OpenDb, operator: Operator) -> UserOut:
    """Makes `email_pending` of the user count without its code; audited. For places without a mail server."""
    return UserOut.of(await service.confirm_for_user(db, UserId(user_id), by=operator.id))
