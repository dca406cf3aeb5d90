"""HTTP for sign-in and password links."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request, Response

from catraca.domains.people.credentials import service
from catraca.domains.people.credentials.errors import PasswordLoginOff
from catraca.domains.people.credentials.schemas import NewPassword, PasswordLinkOut, SignIn, TokenOut
from catraca.domains.people.model import UserId
from catraca.platform.auth import TokenSigner
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.rate_limits import RateLimit, demand_for_email
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
class CredentialParts:
    """What the API role passes to these routes. Without a signer, passwords are off."""

    signer: TokenSigner | None
    passwords: Passwords
    password_link_lifetime: timedelta
    sign_ins_per_account: RateLimit
    sign_ins_per_address: RateLimit


Parts = Annotated[CredentialParts, Depends(wired(CredentialParts))]


async def _own_signer(parts: Parts) -> TokenSigner:
    if parts.signer is None:
        raise PasswordLoginOff
    return parts.signer


OwnSigner = Annotated[TokenSigner, Depends(_own_signer)]

router = make_router(prefix="/v1", route_class=UnitOfWork)
# Hashing takes long: these routes open their own transactions.
staged_router = make_router(prefix="/v1", route_class=Staged)
ROUTERS = [staged_router, router]


@staged_router.post(
    "/auth/token",
    tags=["sign-in"],
    summary="Sign in with e-mail and password",
    responses=problems(401, 404, 429),
)
@stores_no_response
async def sign_in(
    request: Request, body: SignIn, transact: InTransaction, signer: OwnSigner, parts: Parts
) -> TokenOut:
    """Returns a token for `Authorization: Bearer`. Every failure has the same answer."""
    await demand_for_email(
        request,
        "sign-in",
        body.email,
        per_address=parts.sign_ins_per_address,
        per_email=parts.sign_ins_per_account,
    )
    login = await service.check_password(
        transact, parts.passwords, email=body.email, password=body.password.get_secret_value()
    )
    token = signer.sign(login.user_id, roles=login.roles, issued_at=login.as_of)
    return TokenOut(access_token=token, expires_in=int(signer.lifetime.total_seconds()))


@staged_router.post(
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
    """Uses the link, sets the password and revokes every token of the user."""
    await service.set_password(
        transact, parts.passwords, token=body.token, password=body.password.get_secret_value()
    )


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
    """Returns a token that sets the user's password once. An earlier unused link stops working."""
    link = await service.issue_password_link(
        db, UserId(user_id), lifetime=parts.password_link_lifetime, by=operator.id
    )
    return PasswordLinkOut(token=link.token, expires_at=link.expires_at)
