"""HTTP for second factors: a user's own, and their removal by operators."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Response

from catraca.domains.people.model import UserId
from catraca.domains.people.second_factor import service
from catraca.domains.people.second_factor.errors import SecondFactorElsewhere
from catraca.domains.people.second_factor.model import CODES_OF_CALLER, FactorVault
from catraca.domains.people.second_factor.schemas import (
    CodeIn,
    NewFactorOut,
    ProofIn,
    RecoveryCodesOut,
    SecondFactorOut,
)
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller, FreshCaller, FreshOperator
from catraca.platform.http.problems import problems
from catraca.platform.http.rate_limits import RateLimiter
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response, wired


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFactorParts:
    """What the API role passes to these routes. Without a vault, an identity provider signs people in."""

    vault: FactorVault | None
    limiter: RateLimiter


Parts = Annotated[SecondFactorParts, Depends(wired(SecondFactorParts))]


async def _vault(parts: Parts) -> FactorVault:
    if parts.vault is None:
        raise SecondFactorElsewhere
    return parts.vault


async def _limit_codes(caller: Caller, parts: Parts) -> None:
    """Limit the codes that a caller can try: a stolen token must not find the code."""
    await parts.limiter.demand(f"second-factor:{caller.id}", CODES_OF_CALLER)


Vault = Annotated[FactorVault, Depends(_vault)]

PATH = "/me/second-factor"
router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.get(PATH, tags=["me"], summary="Read my second factor", responses=problems(401))
async def read_second_factor(db: OpenDb, caller: Caller) -> SecondFactorOut:
    """Returns whether sign-ins ask for a code, and how many recovery codes are left."""
    return SecondFactorOut.of(await service.get_factor(db, UserId(caller.id)))


@router.post(
    PATH,
    tags=["me"],
    summary="Begin to set up my second factor",
    status_code=201,
    responses=problems(401, 404, 409),
)
@stores_no_response
async def begin_second_factor(db: OpenDb, caller: FreshCaller, vault: Vault) -> NewFactorOut:
    """Returns a secret for an authenticator app; `confirm` turns it on. A repeat returns another secret.

    The token must be of a recent sign-in, otherwise 401 `fresh_sign_in_required`.
    """
    factor = await service.begin_factor(db, UserId(caller.id), vault)
    return NewFactorOut(secret=factor.secret, uri=factor.uri)


@router.post(
    f"{PATH}/confirm",
    tags=["me"],
    summary="Turn my second factor on",
    responses=problems(401, 404, 409, 422, 429),
    dependencies=[Depends(_limit_codes)],
)
@stores_no_response
async def confirm_second_factor(body: CodeIn, db: OpenDb, caller: Caller, vault: Vault) -> RecoveryCodesOut:
    """Takes a code of the app; from then on sign-ins ask for one. Returns ten recovery codes, once."""
    codes = await service.confirm_factor(db, UserId(caller.id), vault, body.code)
    return RecoveryCodesOut(recovery_codes=codes)


@router.post(
    f"{PATH}/recovery-codes",
    tags=["me"],
    summary="Make new recovery codes",
    responses=problems(401, 404, 409, 422, 429),
    dependencies=[Depends(_limit_codes)],
)
@stores_no_response
async def renew_recovery_codes(body: ProofIn, db: OpenDb, caller: Caller, vault: Vault) -> RecoveryCodesOut:
    """Takes a code and returns ten recovery codes; the old ones stop working."""
    codes = await service.renew_recovery_codes(db, UserId(caller.id), vault, body.proof())
    return RecoveryCodesOut(recovery_codes=codes)


@router.post(
    f"{PATH}/remove",
    tags=["me"],
    summary="Turn my second factor off",
    status_code=204,
    response_class=Response,
    responses=problems(401, 404, 409, 422, 429),
    dependencies=[Depends(_limit_codes)],
)
@stores_no_response
async def remove_own_second_factor(body: ProofIn, db: OpenDb, caller: Caller, vault: Vault) -> None:
    """Takes a code; sign-ins then need the password only. Not a DELETE, which has no body for proxies."""
    await service.remove_own_factor(db, UserId(caller.id), vault, body.proof())


@router.delete(
    "/users/{user_id}/second-factor",
    tags=["people"],
    summary="Remove a user's lost second factor",
    status_code=204,
    response_class=Response,
    responses=problems(401, 403, 404, 422),
)
async def remove_second_factor(user_id: UUID, db: OpenDb, operator: FreshOperator) -> None:
    """For a user who has lost phone and recovery codes. Needs a recent sign-in; audited.

    Operators cannot remove their own without a code.
    """
    if user_id == operator.id:
        raise Forbidden
    await service.remove_factor(db, UserId(user_id), by=operator.id)
