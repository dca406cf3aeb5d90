"""Bodies that request a time, and the appointment in answers."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import BookingRequest, Client, Party, Status
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.schemas import (
    APPOINTMENT_ID,
    ELEVEN,
    OTHER_APPOINTMENT_ID,
    REQUESTED_TIME,
    ROOM_ID,
    TEN,
    Contact,
    LocalTime,
    WholeMoment,
)
from catraca.platform.forms import Answer, Body, Name, examples

WALK_IN: JsonDict = {"name": "Seu Jorge", "contact": "+5571987654321"}
BOOKED: JsonDict = {
    "appointment_id": APPOINTMENT_ID,
    **REQUESTED_TIME,
    "room_id": ROOM_ID,
    "series_id": None,
    "client": {"user_id": "0198a8b2-3c00-7000-8000-00000000e0e1", "name": None, "contact": None},
    "status": "BOOKED",
    "ends_at": TEN,
    "local_starts_at": "2026-12-01T09:00:00",
    "time_zone": "America/Bahia",
    "tzdata_version": "2026a",
    "sequence": 0,
    "canceled_by": None,
    "cancel_reason": None,
    "created_at": "2026-11-20T17:31:08.214Z",
    "changed_at": "2026-11-20T17:31:08.214Z",
}
OTHER_BOOKED: JsonDict = {
    **BOOKED,
    "appointment_id": OTHER_APPOINTMENT_ID,
    "starts_at": TEN,
    "ends_at": ELEVEN,
    "local_starts_at": "2026-12-01T10:00:00",
    "client": {"user_id": None, **WALK_IN},
}


class AccountIn(Body):
    """A client with an account. Default: the caller."""

    user_id: UUID

    def to_client(self) -> Client:
        return Client(id=UserId(self.user_id))


class ClientIn(Body):
    """A client: an account, or a name and contact. Default: the caller."""

    user_id: UUID | None = None
    name: Name | None = None
    contact: Contact | None = None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if (self.user_id is None) == (self.name is None) or (self.user_id is not None and self.contact):
            raise PydanticCustomError("client_unclear", "client_unclear")
        return self

    def to_client(self) -> Client:
        user_id = None if self.user_id is None else UserId(self.user_id)
        return Client(id=user_id, name=self.name, contact=self.contact)


class TimeIn(Body):
    service_id: UUID
    worker_id: Annotated[
        UUID | None, Field(description="Default: the least booked of the workers who are free.")
    ] = None
    starts_at: WholeMoment

    def to_request(self) -> BookingRequest:
        return BookingRequest(
            service_id=ServiceId(self.service_id),
            worker_id=None if self.worker_id is None else SubjectId(self.worker_id),
            starts=to_seconds(self.starts_at),
        )


class ClientTimeIn(TimeIn):
    client: ClientIn | None = None

    def to_client(self) -> Client | None:
        return self.client and self.client.to_client()


class ClientOut(Answer):
    user_id: Annotated[UUID | None, Field(validation_alias="id")]
    name: str | None
    contact: str | None


class AppointmentOut(Answer):
    model_config = examples(BOOKED)

    appointment_id: Annotated[UUID, Field(validation_alias="id")]
    service_id: UUID
    worker_id: UUID
    room_id: UUID | None
    series_id: Annotated[
        UUID | None, Field(description="Shared by appointments that were booked as a series.")
    ]
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
