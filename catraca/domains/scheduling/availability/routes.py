"""Routes for free slots."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request

from catraca.domains.scheduling.availability import service
from catraca.domains.scheduling.availability.schemas import ExplanationOut, SlotPage
from catraca.domains.scheduling.calendar_math.spans import DAY
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.routes import TAGS, InZone, TimeCursor, read_cursor, search_cost
from catraca.domains.scheduling.shared.schemas import WholeMoment
from catraca.platform.forms import Moment
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, expensive, make_router
from catraca.platform.texts import negotiate, text

From = Annotated[Moment, Query(alias="from", description="Slots that start at this moment or later.")]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


async def _cost_of_slots(request: Request) -> int:
    """By the days of the range; the longest range, if this one cannot be read here."""
    asked = request.query_params
    try:
        days = (datetime.fromisoformat(asked["to"]) - datetime.fromisoformat(asked["from"])).days
    except (KeyError, ValueError, TypeError):
        days = service.MAX_DAYS
    return search_cost(max(0, min(days, service.MAX_DAYS)), any_worker="worker_id" not in asked)


async def _cost_of_explanation(request: Request) -> int:
    """By the days around the time."""
    days = 2 * service.AROUND / DAY
    return search_cost(days, any_worker="worker_id" not in request.query_params)


@router.get("/availability", tags=TAGS, summary="List free slots", responses=problems(401, 404, 422))
@expensive(_cost_of_slots)
async def list_slots(
    db: OpenDb,
    caller: Caller,
    service_id: UUID,
    from_: From,
    to: Annotated[Moment, Query(description="Slots that start before this moment.")],
    time_zone: InZone,
    worker_id: UUID | None = None,
    after: TimeCursor = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> SlotPage:
    """Pages of slots that can be booked, of one worker or all, sorted by start."""
    found = await service.find_slots(
        db,
        ServiceId(service_id),
        worker_id=None if worker_id is None else SubjectId(worker_id),
        within=(_rounded_up(from_), _rounded_up(to)),
        after=None if after is None else read_cursor(after),
        limit=limit,
    )
    return SlotPage.of(found, time_zone=time_zone)


def _rounded_up(moment: datetime) -> int:
    return to_seconds(moment) + bool(moment.microsecond)


@router.get(
    "/availability/explain",
    tags=TAGS,
    summary="Explain why a time is not free",
    responses=problems(401, 404, 422),
    response_model_exclude_none=True,
)
@expensive(_cost_of_explanation)
async def explain_slot(
    request: Request,
    db: OpenDb,
    caller: Caller,
    service_id: UUID,
    starts_at: WholeMoment,
    time_zone: InZone,
    worker_id: UUID | None = None,
) -> ExplanationOut:
    """Whether a time can be booked, worker by worker; if not, why, and the nearest free slots.

    Hours, grid points and the bookings that are in the way are shown to operators, and to workers about their
    own agenda.
    """
    language = negotiate(request.headers.get("accept-language"))
    found = await service.explain_time(
        db,
        ServiceId(service_id),
        worker_id=None if worker_id is None else SubjectId(worker_id),
        starts_at=starts_at,
        language=language,
        caller=caller,
    )
    return ExplanationOut.of(
        found,
        lambda code, data: text(f"scheduling.{code}", language, data),
        starts=to_seconds(starts_at),
        time_zone=time_zone,
    )
