"""HTTP for appointments: translate, authorise, call one verb."""

from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.people import UserId
from catraca.domains.scheduling.errors import RangeInvalid
from catraca.domains.scheduling.model.agendas import AppointmentId, ServiceId, SubjectId
from catraca.domains.scheduling.model.zones import at, moment_of
from catraca.domains.scheduling.routes.paging import Cursor, read_cursor
from catraca.domains.scheduling.routes.parties import audit_act, client_of, not_a_client, party_to
from catraca.domains.scheduling.routes.turns import Parts, in_line
from catraca.domains.scheduling.schemas.booking import (
    AppointmentIn,
    AppointmentOut,
    AppointmentPage,
    CancelIn,
    RescheduleIn,
    SwapIn,
    SwappedOut,
)
from catraca.domains.scheduling.schemas.fields import Moment
from catraca.domains.scheduling.schemas.refusals import SLOT_NOT_OFFERED, SLOT_TAKEN
from catraca.domains.scheduling.service import booking, moving
from catraca.domains.scheduling.store import appointments as store
from catraca.domains.scheduling.store.agendas import worker_of_user
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/appointments",
    tags=TAGS,
    summary="Book an appointment",
    status_code=201,
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(in_line)
async def book_appointment(body: AppointmentIn, db: OpenDb, caller: Caller, parts: Parts) -> AppointmentOut:
    """Of many who want one time one gets it; the others are told the nearest `alternatives` that are free."""
    client = await client_of(db, caller, body.client)
    booked = await booking.book(
        db,
        body.to_wish(),
        client,
        rules=parts.rules,
        hold_id=None if body.hold_id is None else AppointmentId(body.hold_id),
    )
    if client.id != caller.id:
        await audit_act(db, caller, "operator", "booked", booked)
    return AppointmentOut.of(booked)


@router.get("/appointments", tags=TAGS, summary="List appointments", responses=problems(401, 403, 422))
async def list_appointments(
    db: OpenDb,
    caller: Caller,
    worker_id: UUID | None = None,
    client_id: UUID | None = None,
    service_id: UUID | None = None,
    from_: Annotated[Moment | None, Query(alias="from")] = None,
    to: Moment | None = None,
    after: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> AppointmentPage:
    """In the order of their beginning: the caller's own; a worker's, for that worker; all, for operators."""
    if from_ is not None and to is not None and from_ >= to:
        raise RangeInvalid
    client_id = await _whose(db, caller, worker_id=worker_id, client_id=client_id)
    cursor = None if after is None else read_cursor(after)
    found = await store.find_appointments(
        db,
        client_id=None if client_id is None else UserId(client_id),
        worker_id=_subject(worker_id),
        service_id=None if service_id is None else ServiceId(service_id),
        starts_from=from_,
        starts_before=to,
        after=None if cursor is None else (at(cursor[0]), cursor[1]),
        limit=limit + 1,
    )
    return AppointmentPage.of(found, limit=limit)


async def _whose(db: Db, caller: Principal, *, worker_id: UUID | None, client_id: UUID | None) -> UUID | None:
    """Which clients' appointments the caller sees: all of their own agenda's, elsewhere only their own."""
    own = await worker_of_user(db, UserId(caller.id)) if caller.has("worker") and worker_id else None
    if caller.has("operator") or (own is not None and own.id == worker_id):
        return client_id
    if client_id not in (None, caller.id):
        raise Forbidden
    return caller.id


ONE = "/appointments/{appointment_id:uuid}"


@router.get(ONE, tags=TAGS, summary="See an appointment", responses=problems(401, 404, 422))
async def get_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    found, _ = await party_to(db, caller, appointment_id)
    return AppointmentOut.of(found)


@router.post(
    f"{ONE}/reschedule",
    tags=TAGS,
    summary="Move an appointment",
    responses={**problems(401, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(in_line)
async def reschedule_appointment(
    appointment_id: UUID, body: RescheduleIn, db: OpenDb, caller: Caller, parts: Parts
) -> AppointmentOut:
    """To another time, or another worker. It keeps the one it has until it has the other."""
    found, party = await party_to(db, caller, appointment_id)
    moved = await moving.reschedule(
        db,
        found.id,
        starts=moment_of(body.starts_at),
        worker_id=_subject(body.worker_id),
        by=party,
        rules=parts.rules,
    )
    await audit_act(db, caller, party, "rescheduled", moved)
    return AppointmentOut.of(moved)


@router.post(
    f"{ONE}/swap",
    tags=TAGS,
    summary="Swap two appointments",
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
@within(in_line)
async def swap_appointments(
    appointment_id: UUID, body: SwapIn, db: OpenDb, operator: Operator, parts: Parts
) -> SwappedOut:
    """Each gets the other's time and worker, or both stay as they are."""
    swapped = await moving.swap(
        db, AppointmentId(appointment_id), AppointmentId(body.appointment_id), rules=parts.rules
    )
    await audit_act(db, operator, "operator", "swapped", *swapped)
    return SwappedOut(appointments=[AppointmentOut.of(one) for one in swapped])


@router.post(
    f"{ONE}/cancel", tags=TAGS, summary="Cancel an appointment", responses=problems(401, 404, 409, 422)
)
@within(in_line)
async def cancel_appointment(
    appointment_id: UUID, db: OpenDb, caller: Caller, body: CancelIn | None = None
) -> AppointmentOut:
    """Its time is free again at once. Safe to repeat."""
    found, party = await party_to(db, caller, appointment_id)
    canceled = await moving.cancel(db, found.id, by=party, reason=body and body.reason)
    await audit_act(db, caller, party, "canceled", canceled)
    return AppointmentOut.of(canceled)


@router.post(
    f"{ONE}/confirm", tags=TAGS, summary="Confirm an appointment", responses=problems(401, 404, 409, 422)
)
@within(in_line)
async def confirm_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    """It will take place: a client or worker says so. Safe to repeat."""
    found, party = await party_to(db, caller, appointment_id)
    confirmed = await moving.confirm(db, found.id)
    await audit_act(db, caller, party, "confirmed", confirmed)
    return AppointmentOut.of(confirmed)


@router.post(
    f"{ONE}/no-show",
    tags=TAGS,
    summary="Say that the client did not come",
    responses=problems(401, 403, 404, 409, 422),
)
@within(in_line)
async def miss_appointment(appointment_id: UUID, db: OpenDb, caller: Caller) -> AppointmentOut:
    """For its worker and operators, once it has begun. Safe to repeat."""
    found, party = await party_to(db, caller, appointment_id)
    not_a_client(party)
    missed = await moving.miss(db, found.id)
    await audit_act(db, caller, party, "missed", missed)
    return AppointmentOut.of(missed)


def _subject(worker_id: UUID | None) -> SubjectId | None:
    return None if worker_id is None else SubjectId(worker_id)
