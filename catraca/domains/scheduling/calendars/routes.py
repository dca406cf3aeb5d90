"""Routes for calendar files and calendar links."""

import hashlib
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Response
from pydantic import BaseModel, Field

from catraca.domains.scheduling.calendars import service
from catraca.domains.scheduling.calendars.model import MEDIA_TYPE
from catraca.domains.scheduling.shared.model import SubjectId
from catraca.domains.scheduling.shared.routes import TAGS
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response

FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "An iCalendar file.", "content": {"text/calendar": {}}}
}
LINK = "/workers/{worker_id}/calendar-link"
EXAMPLE_PATH = "/v1/scheduling/calendars/q0eJ3m8TnVb1cXz5LkR7yWd2HsPfGaUo4iMtKjNxEhQ.ics"

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


class CalendarLinkOut(BaseModel):
    path: Annotated[
        str,
        Field(
            description="On this server, and secret: it gives access to the calendar. Returned only once.",
            examples=[EXAMPLE_PATH],
        ),
    ]


@router.get(
    "/appointments/{appointment_id:uuid}/calendar.ics",
    tags=TAGS,
    summary="Download an appointment as a calendar file",
    response_class=Response,
    responses={**FILE, **problems(401, 404, 422)},
)
async def get_appointment_calendar(appointment_id: UUID, db: OpenDb, caller: Caller) -> Response:
    """For its parties. A file that is downloaded after a change replaces the one before."""
    file = await service.write_appointment(db, caller, appointment_id)
    headers = {"content-disposition": 'attachment; filename="appointment.ics"'}
    return Response(file, headers=headers, media_type=MEDIA_TYPE)


@router.post(
    LINK,
    tags=TAGS,
    summary="Create a worker's calendar link",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
@stores_no_response
async def make_calendar_link(worker_id: UUID, db: OpenDb, caller: Caller) -> CalendarLinkOut:
    """A secret address to which calendar programs subscribe. A new link ends the one before.

    The link also ends when the worker is retired, and when the worker's account is signed out everywhere,
    gets a new password or other roles.
    """
    token = await service.make_link(db, caller, SubjectId(worker_id))
    return CalendarLinkOut(path=f"/v1/scheduling/calendars/{token}.ics")


@router.delete(
    LINK,
    tags=TAGS,
    summary="Delete a worker's calendar link",
    status_code=204,
    responses=problems(401, 403, 404, 422),
)
async def end_calendar_link(worker_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Safe to repeat."""
    await service.end_link(db, caller, SubjectId(worker_id))


@router.get(
    "/calendars/{token}.ics",
    tags=TAGS,
    summary="Read a worker's calendar",
    response_class=Response,
    responses={**FILE, 304: {"description": "Not changed."}, **problems(404)},
)
async def read_calendar(
    token: str, db: OpenDb, if_none_match: Annotated[str | None, Header(max_length=1000)] = None
) -> Response:
    """Needs the secret in the address and no token. Lists what is booked and when, not the clients.

    From 30 days ago to a year ahead; appointments canceled in the last 30 days are marked as canceled.
    """
    calendar = await service.read_calendar(db, token)
    etag = f'"{hashlib.sha256(calendar).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if if_none_match is not None and etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(calendar, headers=headers, media_type=MEDIA_TYPE)
