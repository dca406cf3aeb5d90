"""What the routes of appointments and holds take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from catraca.domains.people import Name, Reason
from catraca.domains.scheduling.model.agendas import Appointment, Party, ServiceId, Status, SubjectId
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.schemas import examples
from catraca.domains.scheduling.schemas.examples import shown_as
from catraca.domains.scheduling.schemas.fields import Body, Contact, LocalTime, WholeMoment
from catraca.domains.scheduling.service.booking import Wish


class ClientIn(Body):
    """Somebody with an account, or a name and how to reach them; left out, whoever asks."""

    user_id: UUID | None = None
    name: Name | None = None
    contact: Contact | None = None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if (self.user_id is None) == (self.name is None) or (self.user_id is not None and self.contact):
            raise PydanticCustomError("client_unclear", "client_unclear")
        return self


class TimeIn(Body):
    service_id: UUID
    worker_id: Annotated[UUID | None, Field(description="Left out: whoever is free, fairly.")] = None
    starts_at: WholeMoment

    def to_wish(self) -> Wish:
        return Wish(
            service_id=ServiceId(self.service_id),
            worker_id=None if self.worker_id is None else SubjectId(self.worker_id),
            starts=moment_of(self.starts_at),
        )


class HolderIn(Body):
    """Somebody with an account, whose holds are counted; left out, whoever asks."""

    user_id: UUID


class WishIn(TimeIn):
    client: ClientIn | None = None


class HoldIn(TimeIn):
    model_config = shown_as(examples.TIME)

    client: HolderIn | None = None

    def to_client(self) -> ClientIn | None:
        return None if self.client is None else ClientIn(user_id=self.client.user_id)


class AppointmentIn(WishIn):
    model_config = shown_as(
        examples.TIME,
        {**examples.TIME, "hold_id": examples.HOLD},
        {**examples.TIME, "client": examples.WALK_IN},
    )

    hold_id: Annotated[UUID | None, Field(description="A hold of the client's on this very time.")] = None


class RescheduleIn(Body):
    model_config = shown_as({"starts_at": examples.TEN})

    starts_at: WholeMoment
    worker_id: Annotated[UUID | None, Field(description="Left out: with the same.")] = None


class SwapIn(Body):
    model_config = shown_as({"appointment_id": examples.OTHER})

    appointment_id: Annotated[UUID, Field(description="The other one.")]


class CancelIn(Body):
    model_config = shown_as({"reason": "Viagem"})

    reason: Reason | None = None


class ClientOut(BaseModel):
    user_id: UUID | None
    name: str | None
    contact: str | None


class AppointmentOut(BaseModel):
    model_config = shown_as(examples.BOOKED)

    appointment_id: UUID
    service_id: UUID
    worker_id: UUID
    room_id: UUID | None
    series_id: Annotated[UUID | None, Field(description="Those booked together have the same.")]
    client: ClientOut
    status: Status
    starts_at: datetime
    ends_at: datetime
    local_starts_at: LocalTime
    time_zone: str
    tzdata_version: str
    sequence: int
    canceled_by: Party | None
    cancel_reason: str | None
    created_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, appointment: Appointment) -> Self:
        client = appointment.client
        return cls(
            appointment_id=appointment.id,
            service_id=appointment.service_id,
            worker_id=appointment.worker_id,
            room_id=appointment.room_id,
            series_id=appointment.series_id,
            client=ClientOut(user_id=client.id, name=client.name, contact=client.contact),
            status=appointment.status,
            starts_at=appointment.starts_at,
            ends_at=appointment.ends_at,
            local_starts_at=appointment.local_starts_at,
            time_zone=appointment.time_zone,
            tzdata_version=appointment.tzdata_version,
            sequence=appointment.sequence,
            canceled_by=appointment.canceled_by,
            cancel_reason=appointment.cancel_reason,
            created_at=appointment.created_at,
            changed_at=appointment.changed_at,
        )


class SwappedOut(BaseModel):
    model_config = shown_as({"appointments": [examples.BOOKED, examples.BOOKED_TOO]})

    appointments: list[AppointmentOut]


class AppointmentPage(BaseModel):
    model_config = shown_as({"appointments": [examples.BOOKED], "next": None})

    appointments: list[AppointmentOut]
    next: Annotated[str | None, Field(description="Send it as `after` for the next page.")]

    @classmethod
    def of(cls, found: Sequence[Appointment], *, limit: int) -> Self:
        page = found[:limit]
        last = page[-1] if len(found) > limit else None
        return cls(
            appointments=[AppointmentOut.of(one) for one in page],
            next=last and f"{moment_of(last.starts_at)}.{last.id}",
        )


class HoldOut(BaseModel):
    model_config = shown_as(examples.HOLD_SEEN)

    hold_id: UUID
    service_id: UUID
    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    expires_at: Annotated[datetime, Field(description="From then on it counts for nothing.")]

    @classmethod
    def of(cls, held: Appointment) -> Self:
        assert held.expires_at is not None, "a hold has an end"
        return cls(
            hold_id=held.id,
            service_id=held.service_id,
            worker_id=held.worker_id,
            starts_at=held.starts_at,
            ends_at=held.ends_at,
            expires_at=held.expires_at,
        )
