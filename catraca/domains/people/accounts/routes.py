"""HTTP for accounts: a user's own, and every account for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Response

from catraca.domains.people.accounts import service
from catraca.domains.people.accounts.schemas import ExportOut, MeOut, MePatch, RolesIn, UserPage
from catraca.domains.people.email_changes.service import EmailLimits
from catraca.domains.people.model import Approval, ApprovalRule, Role, UserId
from catraca.domains.people.schemas import UserOut
from catraca.domains.people.service import get_user
from catraca.platform.clock import now
from catraca.platform.errors import NotFound
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller, FreshCaller, FreshOperator, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountParts:
    """What the API role passes to these routes."""

    driver_approval: ApprovalRule
    personal_data: Sequence[service.PersonalData]
    email_limits: EmailLimits


Parts = Annotated[AccountParts, Depends(wired(AccountParts))]

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.get("/me", tags=["me"], summary="Read my profile", responses=problems(401))
async def read_me(db: OpenDb, caller: Caller) -> MeOut:
    """Returns the caller's profile; for drivers with the driver profile."""
    return MeOut.of(await service.get_self(db, UserId(caller.id)), caller)


@router.patch("/me", tags=["me"], summary="Change my profile", responses=problems(401, 403, 422, 429))
async def change_me(body: MePatch, db: OpenDb, caller: Caller, parts: Parts) -> MeOut:
    """Changes the given fields. A driver's new vehicle or plate may need a new approval.

    Another e-mail address becomes `email_pending`, and a code is sent to it. It replaces the present one with
    `POST /v1/me/email/confirm`. Whether the address is another user's is said in that letter only.
    """
    driver_change = body.driver_change()
    if driver_change is not None:
        caller.require("driver")
    user = await service.change_self(
        db,
        UserId(caller.id),
        body.user_change(),
        driver_change,
        driver_approval=parts.driver_approval,
        email_limits=parts.email_limits,
    )
    return MeOut.of(user, caller)


@router.post(
    "/me/sign-out",
    tags=["me"],
    summary="Sign out everywhere",
    status_code=204,
    response_class=Response,
    responses=problems(401),
)
async def sign_out_me(db: OpenDb, caller: Caller) -> None:
    """Revokes every token of the caller, this one included, within about a second."""
    await service.sign_out(db, UserId(caller.id), by=caller.id)


@router.get("/me/export", tags=["me"], summary="Export my data", responses=problems(401))
async def export_me(db: OpenDb, caller: Caller, parts: Parts) -> ExportOut:
    """Returns all stored personal data of the caller, one section per domain."""
    return await _export(db, caller.id, by=caller.id, parts=parts)


@router.delete(
    "/me",
    tags=["me"],
    summary="Erase my data",
    status_code=204,
    response_class=Response,
    responses=problems(401),
)
async def erase_me(db: OpenDb, caller: FreshCaller, parts: Parts) -> None:
    """Erases the caller's personal data and closes the account. It cannot be undone.

    The token must be of a recent sign-in, otherwise 401 `fresh_sign_in_required`.
    """
    await service.erase_user(db, UserId(caller.id), parts.personal_data, by=caller.id)


@router.get("/users", tags=["people"], summary="List users", responses=problems(401, 403, 422))
async def list_users(
    db: OpenDb,
    operator: Operator,
    role: Role | None = None,
    approval: Annotated[Approval | None, Query(description="Only drivers with this approval.")] = None,
    after: PageCursor = None,
    limit: PageLimit = 50,
) -> UserPage:
    """Returns a page of the users who are not erased."""
    users = await service.find_users(db, role=role, approval=approval, after=after, limit=limit + 1)
    return UserPage.of(users, limit=limit)


@router.get("/users/{user_id}", tags=["people"], summary="Read a user", responses=problems(401, 404, 422))
async def read_user(user_id: UUID, db: OpenDb, caller: Caller) -> UserOut:
    """Returns the user to the user, operators and services; to every other caller the answer is 404."""
    if user_id != caller.id and not caller.acts_for_others:
        raise NotFound
    return UserOut.of(await get_user(db, UserId(user_id)))


@router.post(
    "/users/{user_id}/sign-out",
    tags=["people"],
    summary="Sign a user out everywhere",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404, 422),
)
async def sign_out_user(user_id: UUID, db: OpenDb, operator: Operator) -> None:
    """Revokes every token of the user, within about a second."""
    await service.sign_out(db, UserId(user_id), by=operator.id)


@router.put(
    "/users/{user_id}/roles",
    tags=["people"],
    summary="Set a user's roles",
    responses=problems(401, 403, 404, 409, 422),
)
async def decide_roles(
    user_id: UUID, body: RolesIn, db: OpenDb, operator: FreshOperator, parts: Parts
) -> UserOut:
    """Sets the roles of future sign-ins and revokes every token of the user. Needs a recent sign-in."""
    user = await service.decide_roles(
        db, UserId(user_id), body.roles, driver_approval=parts.driver_approval, by=operator.id
    )
    return UserOut.of(user)


@router.get(
    "/users/{user_id}/export",
    tags=["people"],
    summary="Export a user's data",
    responses=problems(401, 403, 404, 422),
)
async def export_user(user_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> ExportOut:
    """Returns all stored personal data of the user. The export is audited."""
    return await _export(db, user_id, by=operator.id, parts=parts)


@router.delete(
    "/users/{user_id}",
    tags=["people"],
    summary="Erase a user's data",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404, 422),
)
async def erase_user(user_id: UUID, db: OpenDb, operator: FreshOperator, parts: Parts) -> None:
    """Erases the user's personal data and closes the account. It cannot be undone; repeating it is safe.

    The operator's token must be of a recent sign-in, otherwise 401 `fresh_sign_in_required`.
    """
    await service.erase_user(db, UserId(user_id), parts.personal_data, by=operator.id)


async def _export(db: OpenDb, user_id: UUID, *, by: UUID, parts: AccountParts) -> ExportOut:
    sections = await service.export_user(db, UserId(user_id), parts.personal_data, by=by)
    return ExportOut(id=user_id, exported_at=now(), sections=sections)
