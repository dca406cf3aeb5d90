"""HTTP for sign-in and password links."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request, Response

from catraca.domains.people.credentials import service
from catraca.domains.people.credentials.errors import PasswordLoginOff
from catraca.domains.people.credentials.model import AddressMarks
from catraca.domains.people.credentials.schemas import NewPassword, PasswordLinkOut, SignIn, TokenOut
from catraca.domains.people.model import UserId
from catraca.domains.people.second_factor.model import FactorVault
from catraca.platform.auth import TokenSigner
from catraca.platform.http.caller import FreshOperator
from catraca.platform.http.problems import problems
from catraca.platform.http.proxies import address_of
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
    sign_in_limits: service.SignInLimits
    address_marks: AddressMarks
    factor_vault: FactorVault


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
    """Returns a token for `Authorization: Bearer`. Every wrong e-mail or password has the same answer.

    A user with a second factor gets 401 `second_factor_required`; send the same request with a `code`.
    After some failures from one network address, the next attempt has to wait, longer each time (429).
    """
    login = await service.sign_in(
        transact,
        parts.passwords,
        parts.sign_in_limits,
        parts.address_marks,
        parts.factor_vault,
        email=body.email,
        password=body.password.get_secret_value(),
        proof=body.proof(),
        address=address_of(request),
    )
    token = signer.sign(login.user_id, roles=login.roles, issued_at=login.as_of, methods=login.methods)
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
async def set_password(request: Request, body: NewPassword, transact: InTransaction, parts: Parts) -> None:
    """Uses the link, sets the password and revokes every token of the user."""
    await service.set_password(
        transact,
        parts.passwords,
        parts.address_marks,
        token=body.token,
        password=body.password.get_secret_value(),
        address=address_of(request),
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
async def issue_password_link(
    user_id: UUID, db: OpenDb, operator: FreshOperator, parts: Parts
) -> PasswordLinkOut:
    """Returns a token that sets the user's password once. An earlier unused link stops working.

    The operator's token must be of a recent sign-in, otherwise 401 `fresh_sign_in_required`.
    """
    link = await service.issue_password_link(
        db, UserId(user_id), lifetime=parts.password_link_lifetime, by=operator.id
    )
    return PasswordLinkOut(token=link.token, expires_at=link.expires_at)
