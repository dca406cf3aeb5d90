"""HTTP for what is free, and why a time is not."""

from datetime import datetime
from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request

from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.routes.paging import Cursor, read_cursor
from catraca.domains.scheduling.routes.parties import InZone, is_own
from catraca.domains.scheduling.schemas.availability import ExplanationOut, SlotPage
from catraca.domains.scheduling.schemas.fields import Moment, WholeMoment
from catraca.domains.scheduling.service import explaining, looking
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router
from catraca.platform.texts import negotiate, text

TAGS: list[str | Enum] = ["scheduling"]
From = Annotated[Moment, Query(alias="from", description="Slots that begin from here on.")]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.get("/availability", tags=TAGS, summary="See what is free", responses=problems(401, 404, 422))
async def list_slots(
    db: OpenDb,
    caller: Caller,
    service_id: UUID,
    from_: From,
    to: Annotated[Moment, Query(description="And before here.")],
    time_zone: InZone,
    worker_id: UUID | None = None,
    after: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> SlotPage:
    """Answers the slots that can be booked, by any worker or one, in order, a page at a time."""
    page = await looking.find_slots(
        db,
        ServiceId(service_id),
        worker_id=_subject(worker_id),
        within=(_rounded_up(from_), _rounded_up(to)),
        after=None if after is None else read_cursor(after),
        limit=limit,
    )
    return SlotPage.of(page, time_zone=time_zone)


@router.get(
    "/availability/explain",
    tags=TAGS,
    summary="Ask why a time is not free",
    responses=problems(401, 404, 422),
    response_model_exclude_none=True,
)
async def explain_slot(
    request: Request,
    db: OpenDb,
    caller: Caller,
    service_id: UUID,
    starts_at: WholeMoment,
    time_zone: InZone,
    worker_id: UUID | None = None,
) -> ExplanationOut:
    """Answers, worker by worker, whether that very time is offered; if not, why, and what is free near it.

    What is in the way is told to operators, and to workers of their own time.
    """
    language = negotiate(request.headers.get("accept-language"))
    told = await explaining.explain(
        db,
        ServiceId(service_id),
        worker_id=_subject(worker_id),
        starts_at=starts_at,
        language=language,
        sees=lambda worker: caller.has("operator") or is_own(caller, worker),
        sees_rooms=caller.has("operator"),
    )
    return ExplanationOut.of(
        told,
        lambda code, data: text(f"scheduling.{code}", language, data),
        starts=moment_of(starts_at),
        time_zone=time_zone,
    )


def _subject(worker_id: UUID | None) -> SubjectId | None:
    return None if worker_id is None else SubjectId(worker_id)


def _rounded_up(moment: datetime) -> int:
    return moment_of(moment) + bool(moment.microsecond)
