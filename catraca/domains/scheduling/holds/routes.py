"""Routes for holds."""

from uuid import UUID

from catraca.domains.scheduling.appointments.service import client_for, find_worker_id
from catraca.domains.scheduling.availability.schemas import SLOT_NOT_OFFERED, SLOT_TAKEN
from catraca.domains.scheduling.holds import service
from catraca.domains.scheduling.holds.schemas import HoldIn, HoldOut
from catraca.domains.scheduling.shared.routes import TAGS, Parts, queue_of, requested_worker_queue
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/holds",
    tags=TAGS,
    summary="Hold a time",
    status_code=201,
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(requested_worker_queue)
async def hold_slot(body: HoldIn, db: OpenDb, caller: Caller, parts: Parts) -> HoldOut:
    """Keeps a time for a client, who then books it with `hold_id`, until it expires.

    A client who already holds the time gets that hold.
    """
    client = await client_for(db, caller, body.to_client())
    hold = await service.create_hold(
        db, body.to_request(), client, rules=parts.rules, by_operator=client.id != caller.id
    )
    return HoldOut.model_validate(hold)


@router.delete(
    "/holds/{hold_id:uuid}",
    tags=TAGS,
    summary="Release a hold",
    status_code=204,
    responses=problems(401, 404, 422),
)
@within(queue_of("hold_id", find_worker_id))
async def release_hold(hold_id: UUID, db: OpenDb, caller: Caller) -> None:
    """A hold that was booked stays booked. Safe to repeat."""
    await service.release_hold_for(db, caller, hold_id)
