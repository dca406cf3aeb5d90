"""HTTP for holds: translate, authorise, call one verb."""

from enum import Enum
from uuid import UUID

from catraca.domains.scheduling.routes.parties import client_of, party_to_hold
from catraca.domains.scheduling.routes.turns import Parts, in_line
from catraca.domains.scheduling.schemas.booking import HoldIn, HoldOut
from catraca.domains.scheduling.schemas.refusals import SLOT_NOT_OFFERED, SLOT_TAKEN
from catraca.domains.scheduling.service import booking, holding
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/holds",
    tags=TAGS,
    summary="Hold a time",
    status_code=201,
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(in_line)
async def hold_slot(body: HoldIn, db: OpenDb, caller: Caller, parts: Parts) -> HoldOut:
    """Keeps a time for a client, who then books it with `hold_id`; it is free again by itself.

    Whoever holds it already is answered that hold.
    """
    client = await client_of(db, caller, body.to_client())
    return HoldOut.of(await booking.hold(db, body.to_wish(), client, rules=parts.rules))


@router.delete(
    "/holds/{hold_id:uuid}",
    tags=TAGS,
    summary="Give a hold back",
    status_code=204,
    responses=problems(401, 404, 422),
)
@within(in_line)
async def release_hold(hold_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Safe to repeat. What was booked of it stays booked."""
    held, _ = await party_to_hold(db, caller, hold_id)
    await holding.give_back(db, held.id)
