"""Routes for the waitlist."""

from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.service import client_for
from catraca.domains.scheduling.shared.model import EntryId, ServiceId, SubjectId
from catraca.domains.scheduling.shared.routes import TAGS
from catraca.domains.scheduling.waitlist import service
from catraca.domains.scheduling.waitlist.schemas import WaitlistEntryIn, WaitlistEntryOut, WaitlistPage
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/scheduling/waitlist", route_class=UnitOfWork)


@router.post(
    "",
    tags=TAGS,
    summary="Join the waitlist",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def join_line(body: WaitlistEntryIn, db: OpenDb, caller: Caller) -> WaitlistEntryOut:
    """Time that becomes free is held for the client who has waited longest, before others can book it."""
    client = await client_for(db, caller, body.to_client())
    assert client.id is not None, "only accounts are taken"
    entry = await service.join_waitlist(
        db,
        ServiceId(body.service_id),
        client.id,
        worker_id=None if body.worker_id is None else SubjectId(body.worker_id),
        starts_from=body.from_,
        starts_before=body.to,
    )
    return WaitlistEntryOut.of(entry)


@router.get("", tags=TAGS, summary="List waitlist entries", responses=problems(401, 422))
async def list_entries(
    db: OpenDb,
    caller: Caller,
    service_id: UUID | None = None,
    after: PageCursor = None,
    limit: PageLimit = 50,
) -> WaitlistPage:
    """Pages of the caller's own entries, sorted by creation; of all entries for operators."""
    found = await service.find_entries(
        db,
        client_id=None if caller.has("operator") else UserId(caller.id),
        service_id=None if service_id is None else ServiceId(service_id),
        after=after,
        limit=limit + 1,
    )
    return WaitlistPage.of(found, limit=limit)


@router.delete(
    "/{entry_id:uuid}",
    tags=TAGS,
    summary="Leave the waitlist",
    status_code=204,
    responses=problems(401, 404, 422),
)
async def leave_line(entry_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Releases the offer, if there is one. A booked offer stays booked. Safe to repeat."""
    await service.leave_waitlist_for(db, caller, EntryId(entry_id))
