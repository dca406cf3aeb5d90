"""HTTP for calendars elsewhere: translate, authorise, call one verb."""

import hashlib
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Response

from catraca.domains.scheduling.model.agendas import SubjectId
from catraca.domains.scheduling.model.calendar import MEDIA_TYPE
from catraca.domains.scheduling.routes.parties import check_agenda, party_to
from catraca.domains.scheduling.schemas.calendars import CalendarLinkOut
from catraca.domains.scheduling.service import calendars as service
from catraca.domains.scheduling.service.setting_up import get_worker
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response

TAGS: list[str | Enum] = ["scheduling"]
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "An iCalendar file.", "content": {"text/calendar": {}}}
}
LINK = "/workers/{worker_id}/calendar-link"

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.get(
    "/appointments/{appointment_id:uuid}/calendar.ics",
    tags=TAGS,
    summary="Put an appointment into a calendar",
    response_class=Response,
    responses={**FILE, **problems(401, 404, 422)},
)
async def get_appointment_calendar(appointment_id: UUID, db: OpenDb, caller: Caller) -> Response:
    """An iCalendar file for its parties; fetched again after a change, it replaces the one before."""
    found, _ = await party_to(db, caller, appointment_id)
    headers = {"content-disposition": 'attachment; filename="appointment.ics"'}
    return Response(await service.write_appointment(db, found), headers=headers, media_type=MEDIA_TYPE)


@router.post(
    LINK,
    tags=TAGS,
    summary="Make the address of a worker's calendar",
    status_code=201,
    responses=problems(401, 403, 404, 422),
)
@stores_no_response
async def make_calendar_link(worker_id: UUID, db: OpenDb, caller: Caller) -> CalendarLinkOut:
    """For calendars to subscribe to: whoever has it reads the worker's agenda. A new one ends the old."""
    check_agenda(caller, await get_worker(db, SubjectId(worker_id)))
    return CalendarLinkOut.of(await service.make_link(db, SubjectId(worker_id), by=caller.id))


@router.delete(
    LINK,
    tags=TAGS,
    summary="End the address of a worker's calendar",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
async def end_calendar_link(worker_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Safe to repeat."""
    check_agenda(caller, await get_worker(db, SubjectId(worker_id)))
    await service.end_link(db, SubjectId(worker_id), by=caller.id)


@router.get(
    "/calendars/{token}.ics",
    tags=TAGS,
    summary="Subscribe to a worker's calendar",
    response_class=Response,
    responses={**FILE, 304: {"description": "As it was."}, **problems(404)},
)
async def read_calendar(
    token: str, db: OpenDb, if_none_match: Annotated[str | None, Header(max_length=1000)] = None
) -> Response:
    """Answers whoever has the address, without a token of their own: what is booked and when, not who comes.

    From 30 days ago to a year ahead; what was canceled lately is told as canceled.
    """
    calendar = await service.read_feed(db, token)
    etag = f'"{hashlib.sha256(calendar).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if if_none_match is not None and etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(calendar, headers=headers, media_type=MEDIA_TYPE)
