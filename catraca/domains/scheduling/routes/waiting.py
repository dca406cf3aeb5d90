"""HTTP for the waitlist: translate, authorise, call one verb."""

from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId
from catraca.domains.scheduling.model.waiting import EntryId
from catraca.domains.scheduling.routes.parties import client_of
from catraca.domains.scheduling.schemas.waiting import EntryIn, EntryOut, EntryPage
from catraca.domains.scheduling.service import waiting as service
from catraca.domains.scheduling.store import waiting as store
from catraca.platform.errors import NotFound
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling/waitlist", route_class=UnitOfWork)


@router.post(
    "",
    tags=TAGS,
    summary="Wait for a time to become free",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def join_line(body: EntryIn, db: OpenDb, caller: Caller) -> EntryOut:
    """What becomes free is held for whoever has waited the longest; others can book it after that."""
    client = await client_of(db, caller, body.to_client())
    assert client.id is not None, "only accounts are taken"
    entry = await service.join_line(
        db,
        ServiceId(body.service_id),
        client.id,
        worker_id=None if body.worker_id is None else SubjectId(body.worker_id),
        starts_from=body.from_,
        starts_before=body.to,
    )
    return EntryOut.of(entry)


@router.get("", tags=TAGS, summary="List who waits for what", responses=problems(401, 422))
async def list_entries(
    db: OpenDb,
    caller: Caller,
    service_id: UUID | None = None,
    after: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> EntryPage:
    """The caller's own, in the order in which they were made; all for operators."""
    found = await store.find_entries(
        db,
        client_id=None if caller.has("operator") else UserId(caller.id),
        service_id=None if service_id is None else ServiceId(service_id),
        after=after,
        limit=limit + 1,
    )
    return EntryPage.of(found, limit=limit)


@router.delete(
    "/{entry_id:uuid}",
    tags=TAGS,
    summary="Wait no longer",
    status_code=204,
    responses=problems(401, 404, 422),
)
async def leave_line(entry_id: UUID, db: OpenDb, caller: Caller) -> None:
    """What is offered is given back; what was booked of it stays booked. Safe to repeat."""
    entry = await service.get_entry(db, entry_id)
    if entry.client_id != caller.id and not caller.has("operator"):
        raise NotFound
    await service.leave_line(db, EntryId(entry_id))
