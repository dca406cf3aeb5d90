"""The route that books an appointment."""

from typing import Annotated

from fastapi import Depends, Response

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.schemas import AppointmentOut
from catraca.domains.scheduling.availability.schemas import SLOT_NOT_OFFERED, SLOT_TAKEN
from catraca.domains.scheduling.booking.schemas import AppointmentIn
from catraca.domains.scheduling.booking_batches.service import Booking, Bookings
from catraca.domains.scheduling.shared.model import AppointmentId
from catraca.domains.scheduling.shared.routes import TAGS
from catraca.platform.database.idempotency import StoredResponse
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import Gathered, KeyClaim, make_router, response_of, stored_json, wired

router = make_router(prefix="/v1/scheduling", route_class=Gathered)
Service = Annotated[Bookings, Depends(wired(Bookings))]


@router.post(
    "/appointments",
    tags=TAGS,
    summary="Book an appointment",
    status_code=201,
    response_model=AppointmentOut,
    responses={**problems(401, 403, 404), **SLOT_TAKEN, **SLOT_NOT_OFFERED},
)
async def book_appointment(
    body: AppointmentIn, caller: Caller, claim: KeyClaim, bookings: Service
) -> Response:
    """Of several requests for one time one succeeds; the others get the nearest `alternatives`."""
    booking = Booking(
        caller=caller,
        request=body.to_request(),
        client=body.to_client(),
        hold_id=None if body.hold_id is None else AppointmentId(body.hold_id),
        claim=claim,
        respond=_respond,
    )
    return response_of(await bookings.book(booking))


def _respond(booked: Appointment) -> StoredResponse:
    return stored_json(201, AppointmentOut.model_validate(booked))
