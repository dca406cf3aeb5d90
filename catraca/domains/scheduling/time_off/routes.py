"""Routes for time off of workers and rooms."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.agendas.service import get_managed_worker, get_room
from catraca.domains.scheduling.shared.model import SubjectId, SubjectNo
from catraca.domains.scheduling.shared.routes import TAGS, worker_queue
from catraca.domains.scheduling.time_off import service
from catraca.domains.scheduling.time_off.schemas import AGENDA_TAKEN, TimeOffIn, TimeOffList, TimeOffOut
from catraca.platform.database import Db
from catraca.platform.forms import Moment
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

MAX_LISTED: Final = 500
From = Annotated[Moment, Query(alias="from")]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/workers/{worker_id}/time-off",
    tags=TAGS,
    summary="Take time off",
    status_code=201,
    responses={**problems(401, 403, 404, 422), **AGENDA_TAKEN},
)
@within(worker_queue)
async def take_time_off(worker_id: UUID, body: TimeOffIn, db: OpenDb, caller: Caller) -> TimeOffOut:
    """Refused while the time is in use: `appointments` lists what to move or cancel first."""
    worker = await get_managed_worker(db, caller, SubjectId(worker_id))
    return await _take(db, worker.id, body, by=caller.id)


@router.get(
    "/workers/{worker_id}/time-off",
    tags=TAGS,
    summary="List time off",
    responses=problems(401, 403, 404, 422),
)
async def list_time_off(worker_id: UUID, db: OpenDb, caller: Caller, from_: From, to: Moment) -> TimeOffList:
    """Time off that overlaps the range, sorted; at most 500."""
    worker = await get_managed_worker(db, caller, SubjectId(worker_id))
    return await _list(db, worker.no, (from_, to))


@router.delete(
    "/workers/{worker_id}/time-off/{time_off_id}",
    tags=TAGS,
    summary="End time off",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
@within(worker_queue)
async def end_time_off(worker_id: UUID, time_off_id: UUID, db: OpenDb, caller: Caller) -> None:
    """The time can be booked at once."""
    worker = await get_managed_worker(db, caller, SubjectId(worker_id))
    await service.end_time_off(db, worker.id, time_off_id, by=caller.id)


@router.post(
    "/rooms/{room_id}/time-off",
    tags=TAGS,
    summary="Close a room for a while",
    status_code=201,
    responses={**problems(401, 403, 404, 422), **AGENDA_TAKEN},
)
async def close_room(room_id: UUID, body: TimeOffIn, db: OpenDb, operator: Operator) -> TimeOffOut:
    """Refused while the room is in use: `appointments` lists what to move or cancel first."""
    room = await get_room(db, SubjectId(room_id))
    return await _take(db, room.id, body, by=operator.id)


@router.get(
    "/rooms/{room_id}/time-off",
    tags=TAGS,
    summary="List when a room is closed",
    responses=problems(401, 403, 404, 422),
)
async def list_room_closures(
    room_id: UUID, db: OpenDb, operator: Operator, from_: From, to: Moment
) -> TimeOffList:
    """Closures that overlap the range, sorted; at most 500."""
    room = await get_room(db, SubjectId(room_id))
    return await _list(db, room.no, (from_, to))


@router.delete(
    "/rooms/{room_id}/time-off/{time_off_id}",
    tags=TAGS,
    summary="Open a room again",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
async def open_room(room_id: UUID, time_off_id: UUID, db: OpenDb, operator: Operator) -> None:
    """The room can be booked at once."""
    room = await get_room(db, SubjectId(room_id))
    await service.end_time_off(db, room.id, time_off_id, by=operator.id)


async def _take(db: Db, subject_id: SubjectId, body: TimeOffIn, *, by: UUID) -> TimeOffOut:
    taken = await service.take_time_off(
        db, subject_id, (body.starts_at, body.ends_at), reason=body.reason, by=by
    )
    return TimeOffOut.model_validate(taken)


async def _list(db: Db, subject_no: SubjectNo, within: tuple[datetime, datetime]) -> TimeOffList:
    found = await service.find_time_off(db, subject_no, within, limit=MAX_LISTED)
    return TimeOffList(time_off=[TimeOffOut.model_validate(one) for one in found])
