"""Routes for free slots."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.availability import service
from catraca.domains.scheduling.availability.schemas import SlotPage
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.routes import TAGS, InZone, TimeCursor, read_cursor
from catraca.domains.scheduling.shared.schemas import Moment
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

From = Annotated[Moment, Query(alias="from", description="Slots that start at this moment or later.")]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.get("/availability", tags=TAGS, summary="List free slots", responses=problems(401, 404, 422))
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
