"""Routes for appointments."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.appointments.schemas import AppointmentOut
from catraca.domains.scheduling.appointments.service import find_worker_id
from catraca.domains.scheduling.availability.schemas import SLOT_NOT_OFFERED, SLOT_TAKEN
from catraca.domains.scheduling.booking import service
from catraca.domains.scheduling.booking.schemas import (
    AppointmentPage,
    CancelAppointmentIn,
    RescheduleIn,
    SwapIn,
    SwappedOut,
)
from catraca.domains.scheduling.calendar_math.zones import to_datetime, to_seconds
from catraca.domains.scheduling.shared.model import AppointmentId, SubjectId
from catraca.domains.scheduling.shared.routes import (
    TAGS,
    Parts,
    TimeCursor,
    queue_of,
    read_cursor,
)
from catraca.platform.forms import Moment, PageLimit
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

ONE = "/appointments/{appointment_id:uuid}"

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)
appointment_queue = queue_of("appointment_id", find_worker_id)


@router.get("/appointments", tags=TAGS, summary="List appointments", responses=problems(401, 403, 422))
async def list_appointments(
    db: OpenDb,
    caller: Caller,
    worker_id: UUID | None = None,
    client_id: UUID | None = None,
    service_id: UUID | None = None,
    from_: Annotated[Moment | None, Query(alias="from")] = None,
    to: Moment | None = None,
    after: TimeCursor = None,
    limit: PageLimit = 50,
) -> AppointmentPage:
    """Pages sorted by start: the caller's own; with `worker_id`, a worker's own agenda; all for operators."""
    cursor = None if after is None else read_cursor(after)
    found = await service.find_appointments(
        db,
        caller,
        service.AppointmentFilter(
            client_id=client_id,
            worker_id=worker_id,
            service_id=service_id,
            starts_from=from_,
            starts_before=to,
        ),
        after=None if cursor is None else (to_datetime(cursor[0]), cursor[1]),
        limit=limit + 1,
    )
    return AppointmentPage.of(found, limit=limit)


@router.get(ONE, tags=TAGS, summary="Get an appointment", responses=problems(401, 404, 422))
async def get_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    return AppointmentOut.model_validate(await service.get_appointment(db, caller, appointment_id))


@router.post(
    f"{ONE}/reschedule",
    tags=TAGS,
    summary="Reschedule an appointment",
    responses={**problems(401, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(appointment_queue)
async def reschedule_appointment(
    appointment_id: UUID, body: RescheduleIn, db: OpenDb, caller: Caller, parts: Parts
) -> AppointmentOut:
    """Moves it to another time or worker. If that is refused, it keeps its time."""
    moved = await service.reschedule(
        db,
        caller,
        appointment_id,
        starts=to_seconds(body.starts_at),
        worker_id=None if body.worker_id is None else SubjectId(body.worker_id),
        rules=parts.rules,
    )
    return AppointmentOut.model_validate(moved)


@router.post(
    f"{ONE}/swap",
    tags=TAGS,
    summary="Swap two appointments",
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(appointment_queue)
async def swap_appointments(
    appointment_id: UUID, body: SwapIn, db: OpenDb, operator: Operator, parts: Parts
) -> SwappedOut:
    """Exchanges their times and workers, or changes neither."""
    swapped = await service.swap(
        db, operator, AppointmentId(appointment_id), AppointmentId(body.appointment_id), rules=parts.rules
    )
    return SwappedOut(appointments=[AppointmentOut.model_validate(one) for one in swapped])


@router.post(
    f"{ONE}/cancel", tags=TAGS, summary="Cancel an appointment", responses=problems(401, 404, 409, 422)
)
@within(appointment_queue)
async def cancel_appointment(
    appointment_id: UUID, db: OpenDb, caller: Caller, body: CancelAppointmentIn | None = None
) -> AppointmentOut:
    """Its time is free at once. Safe to repeat."""
    canceled = await service.cancel(db, caller, appointment_id, reason=body and body.reason)
    return AppointmentOut.model_validate(canceled)


@router.post(
    f"{ONE}/confirm", tags=TAGS, summary="Confirm an appointment", responses=problems(401, 404, 409, 422)
)
@within(appointment_queue)
async def confirm_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    """The client or the worker confirms that it will take place. Safe to repeat."""
    return AppointmentOut.model_validate(await service.confirm(db, caller, appointment_id))


@router.post(
    f"{ONE}/no-show",
    tags=TAGS,
    summary="Mark an appointment as no-show",
    responses=problems(401, 403, 404, 409, 422),
)
@within(appointment_queue)
async def miss_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    """For its worker and operators, once it has begun. Safe to repeat."""
    return AppointmentOut.model_validate(await service.record_no_show(db, caller, appointment_id))
