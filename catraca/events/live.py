"""The `data` of each type of notification, as devices get it."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from catraca.events.appointments import CanceledBy
from catraca.events.rides import Point

Text = Annotated[str, Meta(description="A text in the reader's language.")]
RideRef = Annotated[UUID, Meta(description="The ride.")]
Eta = Annotated[
    int | None,
    Meta(description="Until the driver arrives; null if the driver's position is unknown.", examples=[300]),
]
FareCents = Annotated[int | None, Meta(description="In hundredths of the currency.", examples=[2550])]
Action = Literal["retry_same_location", "increase_radius", "schedule_later"]


class PickupLocation(msgspec.Struct, frozen=True):
    """WGS 84 degrees, with the field names of the accept contract."""

    lat: Annotated[float, Meta(examples=[-23.55])]
    lon: Annotated[float, Meta(examples=[-46.63])]


class DriverCard(msgspec.Struct, frozen=True):
    """How the passenger recognizes the car."""

    id: UUID
    name: str | None
    vehicle: str | None
    plate: str | None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all notifications."""

    type: ClassVar[str]
    to: ClassVar[str]

    message: Text


class RideNotice(Notice, frozen=True, kw_only=True):
    """A notification about a ride."""

    ride_id: RideRef


class ConfirmationExpiredNotice(Notice, frozen=True, kw_only=True):
    """The passenger did not confirm drivers of other communities in time. The ride can be requested again."""

    type = "ride.confirmation_expired"
    to = "the passenger"

    message: Annotated[Text, Meta(examples=["O prazo para confirmar acabou. Solicite a corrida novamente."])]
    confirmation_id: Annotated[UUID, Meta(description="The confirmation.")]
    expired_at: Annotated[datetime, Meta(description="Time of the event.")]
    actions: Annotated[
        tuple[Literal["retry_same_location"], ...], Meta(description="Actions an app can propose.")
    ] = ("retry_same_location",)


class OfferNotice(RideNotice, frozen=True, kw_only=True):
    """A ride is offered to the driver: accept or reject it before `expires_at`."""

    type = "matching.candidate_found"
    to = "the driver"

    message: Annotated[Text, Meta(examples=["Nova corrida disponível! R$ 25,50 - 1,2 km de distância"])]
    offer_id: Annotated[UUID, Meta(description="The offer.")]
    attempt: Annotated[int, Meta(description="Number of the offer in the ride.")]
    expires_at: Annotated[datetime, Meta(description="End of the offer.")]
    pickup: Annotated[Point, Meta(description="Pickup, rounded to about a hundred metres.")]
    pickup_distance_meters: Annotated[
        int | None, Meta(description="From the driver to the pickup.", examples=[1200])
    ]
    distance_meters: Annotated[int | None, Meta(description="Length of the ride.", examples=[4200])]
    estimated_fare_cents: FareCents


class AcceptedPassengerNotice(RideNotice, frozen=True, kw_only=True):
    """A driver accepted the ride."""

    type = "ride.accepted"
    to = "the passenger"

    message: Annotated[Text, Meta(examples=["Um motorista aceitou sua corrida!"])]
    driver_id: Annotated[UUID, Meta(description="The driver.")]
    eta_seconds: Eta


class AcceptedDriverNotice(RideNotice, frozen=True, kw_only=True):
    """The driver's acceptance succeeded."""

    type = "ride.accepted"
    to = "the driver"

    message: Annotated[Text, Meta(examples=["Você aceitou a corrida! Vá ao ponto de partida."])]
    passenger_id: Annotated[
        UUID | None, Meta(description="The passenger; null when this driver is not driving the ride.")
    ]
    pickup_location: Annotated[
        PickupLocation | None,
        Meta(description="Exact pickup; null when this driver is not driving the ride."),
    ]
    eta_seconds: Eta


class MatchedNotice(RideNotice, frozen=True, kw_only=True):
    """The driver is on the way: name, car and time of arrival."""

    type = "ride.matched"
    to = "the passenger"

    message: Annotated[Text, Meta(examples=["Motorista encontrado! João está a caminho."])]
    driver: Annotated[DriverCard, Meta(description="The driver and the car.")]
    eta_seconds: Eta
    eta: Annotated[str | None, Meta(description="The same as a text.", examples=["5 min"])]


class ArrivingNotice(RideNotice, frozen=True, kw_only=True):
    """The driver is at the pickup, or nearly."""

    type = "ride.arriving"
    to = "the passenger"

    arrived_at: Annotated[datetime, Meta(description="Time of the event.")]


class StartedNotice(RideNotice, frozen=True, kw_only=True):
    """The ride began."""

    type = "ride.started"
    to = "the passenger"

    started_at: Annotated[datetime, Meta(description="Time of the event.")]


class CompletedNotice(RideNotice, frozen=True, kw_only=True):
    """The ride is completed, with its fare."""

    type = "ride.completed"
    to = "passenger and driver"

    fare_cents: FareCents
    completed_at: Annotated[datetime, Meta(description="Time of the event.")]


class PaidNotice(RideNotice, frozen=True, kw_only=True):
    """The fare of the ride is paid."""

    type = "ride.paid"
    to = "passenger and driver"

    fare_cents: FareCents
    paid_at: Annotated[datetime, Meta(description="Time of the payment.")]


class PaymentExpiredNotice(RideNotice, frozen=True, kw_only=True):
    """The fare was not paid in time. It can still be paid."""

    type = "ride.payment_expired"
    to = "passenger and driver"

    fare_cents: FareCents
    expired_at: Annotated[datetime, Meta(description="Time of the event.")]


class CancelledNotice(RideNotice, frozen=True, kw_only=True):
    """The ride was canceled."""

    type = "ride.cancelled"
    to = "passenger and driver"

    cancelled_by: Annotated[
        str, Meta(description="passenger, driver, operator or system.", examples=["passenger"])
    ]
    reason: Annotated[str, Meta(description="A code.", examples=["changed_plans"])]
    cancelled_at: Annotated[datetime, Meta(description="Time of the event.")]


class ReassigningNotice(RideNotice, frozen=True, kw_only=True):
    """The driver gave the ride up; the search begins again."""

    type = "ride.reassigning"
    to = "the passenger"

    reason: Annotated[str, Meta(description="A code.", examples=["vehicle_problem"])]
    deadline_at: Annotated[datetime, Meta(description="End of the search.")]


class OfferCanceledNotice(RideNotice, frozen=True, kw_only=True):
    """The offer was canceled."""

    type = "offer.canceled"
    to = "the driver"

    message: Annotated[Text, Meta(examples=["Esta corrida foi aceita por outro motorista."])]
    offer_id: Annotated[UUID, Meta(description="The offer.")]
    reason: Annotated[
        Literal["accepted_by_another_driver", "ride_canceled", "no_drivers_available"],
        Meta(description="The reason."),
    ]


class NoDriversNotice(RideNotice, frozen=True, kw_only=True):
    """No driver was found in time, and the ride is canceled."""

    type = "matching.no_drivers_available"
    to = "the passenger"

    title: Annotated[Text, Meta(examples=["Nenhum motorista disponível"])]
    actions: Annotated[tuple[Action, ...], Meta(description="Actions an app can propose.")] = (
        "retry_same_location",
        "increase_radius",
        "schedule_later",
    )


class AppointmentNotice(Notice, frozen=True, kw_only=True):
    """A notification about an appointment, with its present data."""

    appointment_id: Annotated[UUID, Meta(description="The appointment.")]
    service_id: Annotated[UUID, Meta(description="The service.")]
    service: Annotated[str, Meta(description="Name of the service.", examples=["Consulta"])]
    worker_id: Annotated[UUID, Meta(description="The worker.")]
    worker: Annotated[str, Meta(description="Name of the worker.", examples=["Ana"])]
    starts_at: Annotated[datetime, Meta(description="Start.")]
    ends_at: Annotated[datetime, Meta(description="End.")]
    time_zone: Annotated[str, Meta(description="Time zone of the appointment.", examples=["America/Bahia"])]
    when: Annotated[
        Text, Meta(description="`starts_at` as a text in that zone.", examples=["qui., 14 de ago., 09:00"])
    ]


class BookedNotice(AppointmentNotice, frozen=True, kw_only=True):
    """An appointment was booked."""

    type = "appointment.booked"
    to = "client and worker"

    message: Annotated[Text, Meta(examples=["Agendado: Consulta com Ana, qui., 14 de ago., 09:00."])]


class RescheduledNotice(AppointmentNotice, frozen=True, kw_only=True):
    """The time or the worker changed. The worker before is notified too."""

    type = "appointment.rescheduled"
    to = "client, worker and the worker before"

    message: Annotated[Text, Meta(examples=["Remarcado: Consulta com Ana agora é qui., 14 de ago., 09:00."])]
    previous_starts_at: Annotated[datetime, Meta(description="Start before the change.")]
    previous_worker_id: Annotated[UUID, Meta(description="Worker before the change.")]


class ConfirmedNotice(AppointmentNotice, frozen=True, kw_only=True):
    """The appointment was confirmed."""

    type = "appointment.confirmed"
    to = "client and worker"


class AppointmentCanceledNotice(AppointmentNotice, frozen=True, kw_only=True):
    """The appointment was canceled."""

    type = "appointment.canceled"
    to = "client and worker"

    canceled_by: Annotated[CanceledBy, Meta(description="Who canceled.")]


class NoShowNotice(AppointmentNotice, frozen=True, kw_only=True):
    """The client did not come."""

    type = "appointment.no_show"
    to = "the client"


class ReminderNotice(AppointmentNotice, frozen=True, kw_only=True):
    """The appointment begins soon."""

    type = "appointment.reminder_due"
    to = "client and worker"

    message: Annotated[Text, Meta(examples=["Lembrete: Consulta com Ana, qui., 14 de ago., 09:00."])]


class SlotOfferedNotice(AppointmentNotice, frozen=True, kw_only=True):
    """A slot on the client's waitlist is free and held: book it with `hold_id`, the appointment's id."""

    type = "appointment.slot_offered"
    to = "the client"

    message: Annotated[Text, Meta(examples=["Vagou um horário: Consulta com Ana, qui., 14 de ago., 09:00."])]
    entry_id: Annotated[UUID, Meta(description="The waitlist entry.")]
    expires_at: Annotated[datetime, Meta(description="End of the offer.")]


NOTICES: tuple[type[Notice], ...] = (
    ConfirmationExpiredNotice,
    OfferNotice,
    AcceptedPassengerNotice,
    AcceptedDriverNotice,
    MatchedNotice,
    ArrivingNotice,
    StartedNotice,
    CompletedNotice,
    PaidNotice,
    PaymentExpiredNotice,
    CancelledNotice,
    ReassigningNotice,
    OfferCanceledNotice,
    NoDriversNotice,
    BookedNotice,
    RescheduledNotice,
    ConfirmedNotice,
    AppointmentCanceledNotice,
    NoShowNotice,
    ReminderNotice,
    SlotOfferedNotice,
)
