"""HTTP for time off, a worker's or a room's: translate, authorise, call one verb."""

from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.errors import RangeInvalid
from catraca.domains.scheduling.model.agendas import SubjectId
from catraca.domains.scheduling.routes.parties import check_agenda
from catraca.domains.scheduling.routes.turns import in_line
from catraca.domains.scheduling.schemas.fields import Moment
from catraca.domains.scheduling.schemas.refusals import AGENDA_TAKEN
from catraca.domains.scheduling.schemas.workers import TimeOffIn, TimeOffList, TimeOffOut
from catraca.domains.scheduling.service import time_off as service
from catraca.domains.scheduling.service.setting_up import get_room, get_worker
from catraca.platform.database import Db
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

TAGS: list[str | Enum] = ["scheduling"]
MOST_SHOWN = 500
From = Annotated[Moment, Query(alias="from")]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/workers/{worker_id}/time-off",
    tags=TAGS,
    summary="Take time off",
    status_code=201,
    responses={**problems(401, 403, 404, 422), **AGENDA_TAKEN},
)
@within(in_line)
async def take_time_off(worker_id: UUID, body: TimeOffIn, db: OpenDb, caller: Caller) -> TimeOffOut:
    """Refused while something is booked in it: `appointments` says what to move or cancel first."""
    check_agenda(caller, await get_worker(db, SubjectId(worker_id)))
    return await _take(db, worker_id, body, by=caller.id)


@router.get(
    "/workers/{worker_id}/time-off",
    tags=TAGS,
    summary="List time off",
    responses=problems(401, 403, 404, 422),
)
async def list_time_off(worker_id: UUID, db: OpenDb, caller: Caller, from_: From, to: Moment) -> TimeOffList:
    """What touches the range, in order, at most 500."""
    check_agenda(caller, await get_worker(db, SubjectId(worker_id)))
    return await _list(db, worker_id, from_, to)


@router.delete(
    "/workers/{worker_id}/time-off/{time_off_id}",
    tags=TAGS,
    summary="End time off",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
@within(in_line)
async def end_time_off(worker_id: UUID, time_off_id: UUID, db: OpenDb, caller: Caller) -> None:
    """The time can be booked again at once."""
    check_agenda(caller, await get_worker(db, SubjectId(worker_id)))
    await service.end_time_off(db, SubjectId(worker_id), time_off_id, by=caller.id)


@router.post(
    "/rooms/{room_id}/time-off",
    tags=TAGS,
    summary="Close a room for a while",
    status_code=201,
    responses={**problems(401, 403, 404, 422), **AGENDA_TAKEN},
)
async def close_room(room_id: UUID, body: TimeOffIn, db: OpenDb, operator: Operator) -> TimeOffOut:
    """Refused while something is booked in it: `appointments` says what to move or cancel first."""
    await get_room(db, SubjectId(room_id))
    return await _take(db, room_id, body, by=operator.id)


@router.get(
    "/rooms/{room_id}/time-off",
    tags=TAGS,
    summary="See when a room is closed",
    responses=problems(401, 403, 404, 422),
)
async def list_room_closures(
    room_id: UUID, db: OpenDb, operator: Operator, from_: From, to: Moment
) -> TimeOffList:
    """What touches the range, in order, at most 500."""
    await get_room(db, SubjectId(room_id))
    return await _list(db, room_id, from_, to)


@router.delete(
    "/rooms/{room_id}/time-off/{time_off_id}",
    tags=TAGS,
    summary="Open a room again",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
async def open_room(room_id: UUID, time_off_id: UUID, db: OpenDb, operator: Operator) -> None:
    """It can be booked again at once."""
    await get_room(db, SubjectId(room_id))
    await service.end_time_off(db, SubjectId(room_id), time_off_id, by=operator.id)


async def _take(db: Db, subject_id: UUID, body: TimeOffIn, *, by: UUID) -> TimeOffOut:
    _check_order(body.starts_at, body.ends_at)
    taken = await service.take_time_off(
        db,
        SubjectId(subject_id),
        starts_at=body.starts_at,
        ends_at=body.ends_at,
        reason=body.reason,
        by=by,
    )
    return TimeOffOut.of(taken)


async def _list(db: Db, subject_id: UUID, starts_at: datetime, ends_at: datetime) -> TimeOffList:
    _check_order(starts_at, ends_at)
    found = await service.read_time_off(
        db, SubjectId(subject_id), starts_at=starts_at, ends_at=ends_at, limit=MOST_SHOWN
    )
    return TimeOffList(time_off=[TimeOffOut.of(one) for one in found])


def _check_order(first: datetime, last: datetime) -> None:
    if last - first < timedelta(seconds=1):
        raise RangeInvalid
