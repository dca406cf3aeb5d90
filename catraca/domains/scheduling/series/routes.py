"""Routes for series."""

from uuid import UUID

from fastapi import Request

from catraca.domains.scheduling.appointments.service import client_for
from catraca.domains.scheduling.booking.schemas import CancelAppointmentIn
from catraca.domains.scheduling.series import service
from catraca.domains.scheduling.series.schemas import MAX_COUNT, SeriesBookedOut, SeriesIn, SeriesOut
from catraca.domains.scheduling.shared.routes import TAGS, Parts, body_of, queue_of, requested_worker_queue
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, expensive, make_router, within

router = make_router(prefix="/v1/scheduling/series", route_class=UnitOfWork)


async def _cost_of_series(request: Request) -> int:
    """As many requests as bookings; the most, if the count is not a number."""
    count = (await body_of(request)).get("count")
    return min(count, MAX_COUNT) if isinstance(count, int) else MAX_COUNT


@router.post(
    "",
    tags=TAGS,
    summary="Book a series",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
@within(requested_worker_queue)
@expensive(_cost_of_series)
async def book_series(body: SeriesIn, db: OpenDb, caller: Caller, parts: Parts) -> SeriesBookedOut:
    """Books the same time every day, week or month with one worker: all or none, or those that are free."""
    client = await client_for(db, caller, body.to_client())
    booked = await service.book_series(
        db,
        body.to_request(),
        body.to_recurrence(),
        client,
        skip_failed=body.on_conflict == "skip",
        rules=parts.rules,
        by_operator=client.id != caller.id,
    )
    return SeriesBookedOut.of(booked)


@router.get("/{series_id:uuid}", tags=TAGS, summary="Get a series", responses=problems(401, 404, 422))
async def get_series(series_id: UUID, db: OpenDb, caller: Caller) -> SeriesOut:
    """All its appointments, of any status. A worker gets those of its own agenda."""
    found = await service.get_series(db, caller, series_id)
    return SeriesOut.of_appointments(series_id, [one for one, _ in found])


@router.post(
    "/{series_id:uuid}/cancel",
    tags=TAGS,
    summary="Cancel a series",
    responses=problems(401, 404, 409, 422),
)
@within(queue_of("series_id", service.find_worker_id))
async def cancel_series(
    series_id: UUID, db: OpenDb, caller: Caller, body: CancelAppointmentIn | None = None
) -> SeriesOut:
    """Cancels the appointments that have not begun; their time is free at once. Safe to repeat."""
    left = await service.cancel_series(db, caller, series_id, reason=body and body.reason)
    return SeriesOut.of_appointments(series_id, left)
