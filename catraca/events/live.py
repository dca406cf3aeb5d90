"""What people are told: the `data` of each notification, as devices get it. `type` says which it is."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from catraca.events.appointments import CanceledBy
from catraca.events.rides import Point

Words = Annotated[str, Meta(description="For the reader, in the reader's language.")]
RideRef = Annotated[UUID, Meta(description="The ride.")]
Eta = Annotated[
    int | None,
    Meta(description="Until the driver is there; null when nobody knows where.", examples=[300]),
]
FareCents = Annotated[int | None, Meta(description="In hundredths of the currency.", examples=[2550])]
Action = Literal["retry_same_location", "increase_radius", "schedule_later"]


class PickupLocation(msgspec.Struct, frozen=True):
    """Degrees, WGS 84, under the names of the accept contract."""

    lat: Annotated[float, Meta(examples=[-23.55])]
    lon: Annotated[float, Meta(examples=[-46.63])]


class DriverCard(msgspec.Struct, frozen=True):
    """By what a passenger knows the car."""

    id: UUID
    name: str | None
    vehicle: str | None
    plate: str | None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """All of them have words."""

    type: ClassVar[str]
    to: ClassVar[str]

    message: Words


class RideNotice(Notice, frozen=True, kw_only=True):
    """Most of them are about a ride."""

    ride_id: RideRef


class ConfirmationOver(Notice, frozen=True, kw_only=True):
    """Nobody confirmed in time that drivers from elsewhere will do; ask for the ride again."""

    type = "ride.confirmation_expired"
    to = "the passenger"

    message: Annotated[Words, Meta(examples=["O prazo para confirmar acabou. Solicite a corrida novamente."])]
    confirmation_id: Annotated[UUID, Meta(description="The question.")]
    expired_at: Annotated[datetime, Meta(description="When.")]
    actions: Annotated[tuple[Literal["retry_same_location"], ...], Meta(description="What to propose.")] = (
        "retry_same_location",
    )


class OfferMade(RideNotice, frozen=True, kw_only=True):
    """A ride is offered: accept or reject it before `expires_at`."""

    type = "matching.candidate_found"
    to = "the driver"

    message: Annotated[Words, Meta(examples=["Nova corrida disponível! R$ 25,50 - 1,2 km de distância"])]
    offer_id: Annotated[UUID, Meta(description="The offer.")]
    attempt: Annotated[int, Meta(description="The ride's offers are counted.")]
    expires_at: Annotated[datetime, Meta(description="Then it is too late.")]
    pickup: Annotated[Point, Meta(description="Where from, to a hundred metres or so.")]
    pickup_distance_meters: Annotated[
        int | None, Meta(description="From the driver to there.", examples=[1200])
    ]
    distance_meters: Annotated[int | None, Meta(description="How far the ride goes.", examples=[4200])]
    estimated_fare_cents: FareCents


class AcceptedForPassenger(RideNotice, frozen=True, kw_only=True):
    """A driver has the ride, and nobody else will."""

    type = "ride.accepted"
    to = "the passenger"

    message: Annotated[Words, Meta(examples=["Um motorista aceitou sua corrida!"])]
    driver_id: Annotated[UUID, Meta(description="The driver.")]
    eta_seconds: Eta


class AcceptedForDriver(RideNotice, frozen=True, kw_only=True):
    """The ride is this driver's."""

    type = "ride.accepted"
    to = "the driver"

    message: Annotated[Words, Meta(examples=["Você aceitou a corrida! Vá ao ponto de partida."])]
    passenger_id: Annotated[UUID, Meta(description="The passenger.")]
    pickup_location: Annotated[PickupLocation, Meta(description="Where from, exactly.")]
    eta_seconds: Eta


class DriverOnTheWay(RideNotice, frozen=True, kw_only=True):
    """Who comes, and with which car."""

    type = "ride.matched"
    to = "the passenger"

    message: Annotated[Words, Meta(examples=["Motorista encontrado! João está a caminho."])]
    driver: Annotated[DriverCard, Meta(description="Who comes.")]
    eta_seconds: Eta
    eta: Annotated[str | None, Meta(description="The same in words.", examples=["5 min"])]


class DriverThere(RideNotice, frozen=True, kw_only=True):
    """The driver is at the point of departure, or nearly."""

    type = "ride.arriving"
    to = "the passenger"

    arrived_at: Annotated[datetime, Meta(description="When.")]


class RideBegun(RideNotice, frozen=True, kw_only=True):
    """The ride has begun."""

    type = "ride.started"
    to = "the passenger"

    started_at: Annotated[datetime, Meta(description="When.")]


class RideDone(RideNotice, frozen=True, kw_only=True):
    """The ride is over, and what it costs."""

    type = "ride.completed"
    to = "passenger and driver"

    fare_cents: FareCents
    completed_at: Annotated[datetime, Meta(description="When.")]


class RideOff(RideNotice, frozen=True, kw_only=True):
    """The ride ends without having happened."""

    type = "ride.cancelled"
    to = "passenger and driver"

    cancelled_by: Annotated[
        str, Meta(description="passenger, driver, operator or system.", examples=["passenger"])
    ]
    reason: Annotated[str, Meta(description="A code.", examples=["changed_plans"])]
    cancelled_at: Annotated[datetime, Meta(description="When.")]


class LookingAgain(RideNotice, frozen=True, kw_only=True):
    """The driver gave the ride up; another is looked for."""

    type = "ride.reassigning"
    to = "the passenger"

    reason: Annotated[str, Meta(description="A code.", examples=["vehicle_problem"])]
    deadline_at: Annotated[datetime, Meta(description="Until when.")]


class OfferGone(RideNotice, frozen=True, kw_only=True):
    """What was offered can no longer be had."""

    type = "offer.canceled"
    to = "the driver"

    message: Annotated[Words, Meta(examples=["Esta corrida foi aceita por outro motorista."])]
    offer_id: Annotated[UUID, Meta(description="The offer.")]
    reason: Annotated[
        Literal["accepted_by_another_driver", "ride_canceled", "no_drivers_available"],
        Meta(description="Why."),
    ]


class NoDriver(RideNotice, frozen=True, kw_only=True):
    """Nobody was found in time, and the ride is off; what can be done instead."""

    type = "matching.no_drivers_available"
    to = "the passenger"

    title: Annotated[Words, Meta(examples=["Nenhum motorista disponível"])]
    actions: Annotated[tuple[Action, ...], Meta(description="What an app may propose.")] = (
        "retry_same_location",
        "increase_radius",
        "schedule_later",
    )


class AppointmentNotice(Notice, frozen=True, kw_only=True):
    """Others are about an appointment, and say what it is from now on."""

    appointment_id: Annotated[UUID, Meta(description="The appointment.")]
    service_id: Annotated[UUID, Meta(description="What for.")]
    service: Annotated[str, Meta(description="Its name.", examples=["Consulta"])]
    worker_id: Annotated[UUID, Meta(description="With whom.")]
    worker: Annotated[str, Meta(description="Their name.", examples=["Ana"])]
    starts_at: Annotated[datetime, Meta(description="From when.")]
    ends_at: Annotated[datetime, Meta(description="Until when.")]
    time_zone: Annotated[
        str, Meta(description="Whose clocks it was agreed on by.", examples=["America/Bahia"])
    ]
    when: Annotated[
        Words, Meta(description="`starts_at` by those clocks.", examples=["qui., 14 de ago., 09:00"])
    ]


class Booked(AppointmentNotice, frozen=True, kw_only=True):
    """There is an appointment."""

    type = "appointment.booked"
    to = "client and worker"

    message: Annotated[Words, Meta(examples=["Agendado: Consulta com Ana, qui., 14 de ago., 09:00."])]


class Moved(AppointmentNotice, frozen=True, kw_only=True):
    """It is at another time, or with another worker; the one before is told that it is no longer theirs."""

    type = "appointment.rescheduled"
    to = "client, worker and the worker before"

    message: Annotated[Words, Meta(examples=["Remarcado: Consulta com Ana agora é qui., 14 de ago., 09:00."])]
    previous_starts_at: Annotated[datetime, Meta(description="From when it was before.")]
    previous_worker_id: Annotated[UUID, Meta(description="With whom it was before.")]


class Agreed(AppointmentNotice, frozen=True, kw_only=True):
    """Somebody confirmed that it will take place."""

    type = "appointment.confirmed"
    to = "client and worker"


class CalledOff(AppointmentNotice, frozen=True, kw_only=True):
    """It will not take place."""

    type = "appointment.canceled"
    to = "client and worker"

    canceled_by: Annotated[CanceledBy, Meta(description="Who did.")]


class Missed(AppointmentNotice, frozen=True, kw_only=True):
    """It was noted that the client did not come."""

    type = "appointment.no_show"
    to = "the client"


class Near(AppointmentNotice, frozen=True, kw_only=True):
    """A reminder."""

    type = "appointment.reminder_due"
    to = "client and worker"

    message: Annotated[Words, Meta(examples=["Lembrete: Consulta com Ana, qui., 14 de ago., 09:00."])]


class Offered(AppointmentNotice, frozen=True, kw_only=True):
    """A time became free that was waited for: book it with `hold_id`, the appointment's id, in time."""

    type = "appointment.slot_offered"
    to = "the client"

    message: Annotated[Words, Meta(examples=["Vagou um horário: Consulta com Ana, qui., 14 de ago., 09:00."])]
    entry_id: Annotated[UUID, Meta(description="The place in line.")]
    expires_at: Annotated[datetime, Meta(description="Then somebody else is offered it.")]


NOTICES: tuple[type[Notice], ...] = (
    ConfirmationOver,
    OfferMade,
    AcceptedForPassenger,
    AcceptedForDriver,
    DriverOnTheWay,
    DriverThere,
    RideBegun,
    RideDone,
    RideOff,
    LookingAgain,
    OfferGone,
    NoDriver,
    Booked,
    Moved,
    Agreed,
    CalledOff,
    Missed,
    Near,
    Offered,
)
