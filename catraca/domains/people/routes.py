"""HTTP for people: translate, authorise, call one verb."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request, Response

from catraca.domains.people import service
from catraca.domains.people.errors import PasswordLoginOff
from catraca.domains.people.model import Approval, ApprovalRule, Role, UserId, fold_email
from catraca.domains.people.schemas import (
    ApprovalIn,
    ExportOut,
    MeOut,
    MePatch,
    NewPassword,
    PasswordLinkOut,
    RolesIn,
    SignIn,
    TokenOut,
    UserOut,
    UserPage,
)
from catraca.platform.auth import TokenSigner
from catraca.platform.clock import now
from catraca.platform.errors import NotFound
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.proxies import caller_of
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.http.route import (
    InTransaction,
    OpenDb,
    Staged,
    UnitOfWork,
    make_router,
    stores_no_response,
    wired,
)
from catraca.platform.passwords import Passwords


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleParts:
    """What the API's role hands to these routes."""

    signer: TokenSigner | None
    passwords: Passwords
    driver_approval: ApprovalRule
    password_link_lifetime: timedelta
    sign_ins_per_account: RateLimit
    sign_ins_per_address: RateLimit
    personal_data: Sequence[service.PersonalData]


Parts = Annotated[PeopleParts, Depends(wired(PeopleParts))]


async def _own_signer(parts: Parts) -> TokenSigner:
    if parts.signer is None:
        raise PasswordLoginOff
    return parts.signer


OwnSigner = Annotated[TokenSigner, Depends(_own_signer)]
"""Ours, where people sign in with us; elsewhere passwords have no use and their routes refuse."""

router = make_router(prefix="/v1", route_class=UnitOfWork)
passwords_router = make_router(prefix="/v1", route_class=Staged)


@passwords_router.post(
    "/auth/token",
    tags=["sign-in"],
    summary="Sign in with e-mail and password",
    responses=problems(401, 404, 429),
)
@stores_no_response
async def sign_in(
    request: Request, body: SignIn, transact: InTransaction, signer: OwnSigner, parts: Parts
) -> TokenOut:
    """Answers a token for `Authorization: Bearer`; whatever is wrong, the refusal is the same."""
    await _count_sign_in(request, body.email, parts)
    login = await service.check_password(
        transact, parts.passwords, email=body.email, password=body.password.get_secret_value()
    )
    token = signer.sign(login.user_id, roles=login.roles, issued_at=login.as_of)
    return TokenOut(access_token=token, expires_in=int(signer.lifetime.total_seconds()))


async def _count_sign_in(request: Request, email: str, parts: PeopleParts) -> None:
    limiter: RateLimiter = request.app.state.limiter
    address = caller_of(request.client.host) if request.client else "unknown"
    account = hashlib.sha256(fold_email(email).encode()).hexdigest()
    await limiter.demand(f"sign-in:address:{address}", parts.sign_ins_per_address)
    await limiter.demand(f"sign-in:account:{account}", parts.sign_ins_per_account)


@passwords_router.post(
    "/auth/password",
    tags=["sign-in"],
    summary="Set a password with a one-use link",
    status_code=204,
    response_class=Response,
    responses=problems(404, 422),
    dependencies=[Depends(_own_signer)],
)
@stores_no_response
async def set_password(body: NewPassword, transact: InTransaction, parts: Parts) -> None:
    """Uses the link up, sets the password and signs the person out everywhere."""
    await service.set_password(
        transact, parts.passwords, token=body.token, password=body.password.get_secret_value()
    )


@router.get("/me", tags=["me"], summary="Read my profile", responses=problems(401))
async def read_me(db: OpenDb, caller: Caller) -> MeOut:
    """Answers who the token's holder is, with the driver's part for drivers."""
    return MeOut.of(await service.get_self(db, UserId(caller.id)), caller)


@router.patch("/me", tags=["me"], summary="Change my profile", responses=problems(401, 403, 409, 422))
async def change_me(body: MePatch, db: OpenDb, caller: Caller, parts: Parts) -> MeOut:
    """Changes the fields given; a driver's new vehicle or plate may need approval again."""
    driver_change = body.driver_change()
    if driver_change is not None:
        caller.require("driver")
    user = await service.change_self(
        db,
        UserId(caller.id),
        body.user_change(),
        driver_change,
        driver_approval=parts.driver_approval,
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
    """Revokes every token of the caller, this one too, within about a second."""
    await service.sign_out(db, UserId(caller.id), by=caller.id)


@router.get("/me/export", tags=["me"], summary="Export my data", responses=problems(401))
async def export_me(db: OpenDb, caller: Caller, parts: Parts) -> ExportOut:
    """Answers all that is kept of the caller, one section for each part of the service."""
    return await _export(db, caller.id, by=caller.id, parts=parts)


@router.delete(
    "/me",
    tags=["me"],
    summary="Erase my data",
    status_code=204,
    response_class=Response,
    responses=problems(401),
)
async def erase_me(db: OpenDb, caller: Caller, parts: Parts) -> None:
    """Erases what identifies the caller, for good, and ends the account; there is no way back."""
    await service.erase_person(db, UserId(caller.id), parts.personal_data, by=caller.id)


@router.get("/users", tags=["people"], summary="List people", responses=problems(401, 403, 422))
async def list_users(
    db: OpenDb,
    operator: Operator,
    role: Role | None = None,
    approval: Annotated[Approval | None, Query(description="Drivers of this standing only.")] = None,
    after: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> UserPage:
    """Answers people who are not erased, a page at a time."""
    users = await service.find_users(db, role=role, approval=approval, after=after, limit=limit + 1)
    return UserPage.of(users, limit=limit)


@router.get("/users/{user_id}", tags=["people"], summary="Read a person", responses=problems(401, 404, 422))
async def read_user(user_id: UUID, db: OpenDb, caller: Caller) -> UserOut:
    """Answers the person to themselves, operators and services; nobody else learns that there is one."""
    if user_id != caller.id and not caller.acts_for_others:
        raise NotFound
    return UserOut.of(await service.get_user(db, UserId(user_id)))


@router.post(
    "/users/{user_id}/password-link",
    tags=["people"],
    summary="Make a one-use password link",
    status_code=201,
    responses=problems(401, 403, 404, 422),
    dependencies=[Depends(_own_signer)],
)
@stores_no_response
async def issue_password_link(user_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> PasswordLinkOut:
    """Answers a token that sets the person's password once, and ends any earlier unused one."""
    link = await service.issue_password_link(
        db, UserId(user_id), lifetime=parts.password_link_lifetime, by=operator.id
    )
    return PasswordLinkOut(token=link.token, expires_at=link.expires_at)


@router.post(
    "/users/{user_id}/sign-out",
    tags=["people"],
    summary="Sign a person out everywhere",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404, 422),
)
async def sign_out_user(user_id: UUID, db: OpenDb, operator: Operator) -> None:
    """Revokes every token of the person, within about a second."""
    await service.sign_out(db, UserId(user_id), by=operator.id)


@router.put(
    "/users/{user_id}/roles",
    tags=["people"],
    summary="Decide what a person may do",
    responses=problems(401, 403, 404, 409, 422),
)
async def decide_roles(user_id: UUID, body: RolesIn, db: OpenDb, operator: Operator, parts: Parts) -> UserOut:
    """Sets the roles that sign-ins give from now on, and revokes every token of the person."""
    user = await service.decide_roles(
        db, UserId(user_id), body.roles, driver_approval=parts.driver_approval, by=operator.id
    )
    return UserOut.of(user)


@router.get(
    "/users/{user_id}/export",
    tags=["people"],
    summary="Export a person's data",
    responses=problems(401, 403, 404, 422),
)
async def export_user(user_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> ExportOut:
    """Answers all that is kept of the person; the reading is audited."""
    return await _export(db, user_id, by=operator.id, parts=parts)


@router.delete(
    "/users/{user_id}",
    tags=["people"],
    summary="Erase a person's data",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404, 422),
)
async def erase_user(user_id: UUID, db: OpenDb, operator: Operator, parts: Parts) -> None:
    """Erases what identifies the person, for good, and ends the account; doing it again is safe."""
    await service.erase_person(db, UserId(user_id), parts.personal_data, by=operator.id)


@router.put(
    "/drivers/{driver_id}/approval",
    tags=["people"],
    summary="Approve, refuse or suspend a driver",
    responses=problems(401, 403, 404, 422),
)
async def decide_approval(driver_id: UUID, body: ApprovalIn, db: OpenDb, operator: Operator) -> UserOut:
    """Sets whether the driver may take rides; the last word counts."""
    user = await service.decide_approval(
        db, UserId(driver_id), body.approval, reason=body.reason, by=operator.id
    )
    return UserOut.of(user)


async def _export(db: OpenDb, user_id: UUID, *, by: UUID, parts: PeopleParts) -> ExportOut:
    sections = await service.export_person(db, UserId(user_id), parts.personal_data, by=by)
    return ExportOut(id=user_id, exported_at=now(), sections=sections)


ROUTERS = [passwords_router, router]
