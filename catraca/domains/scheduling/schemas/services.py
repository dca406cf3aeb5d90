"""What the routes of services and rooms take and give."""

from collections.abc import Sequence
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.people import Name
from catraca.domains.scheduling.model.agendas import Room, Service, Terms
from catraca.domains.scheduling.schemas import examples
from catraca.domains.scheduling.schemas.examples import shown_as
from catraca.domains.scheduling.schemas.fields import Body, Flag, Ids


class RoomIdsIn(Body):
    model_config = shown_as({"room_ids": [examples.ROOM]})

    room_ids: Ids


class RoomIdsOut(BaseModel):
    model_config = shown_as({"room_ids": [examples.ROOM]})

    room_ids: list[UUID]


class ServiceIn(Body):
    """What can be booked, and on which terms."""

    model_config = shown_as(examples.SERVICE)

    name: Name
    duration_minutes: Annotated[int, Field(strict=True, ge=1, le=1440)]
    buffer_before_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    buffer_after_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    min_notice_minutes: Annotated[
        int, Field(strict=True, ge=0, le=525_600, description="How long before it one must book.")
    ] = 0
    horizon_days: Annotated[
        int, Field(strict=True, ge=1, le=730, description="How many days ahead one may book.")
    ] = 60
    slot_step_minutes: Annotated[
        int | None,
        Field(strict=True, ge=1, le=1440, description="From slot to slot; left out, as long as it takes."),
    ] = None
    capacity: Annotated[int, Field(strict=True, ge=1, le=1000, description="Clients at a time.")] = 1
    retired: Annotated[Flag, Field(description="Not to be booked any more.")] = False

    def to_terms(self) -> Terms:
        return Terms(
            **self.model_dump(exclude={"slot_step_minutes"}),
            slot_step_minutes=self.slot_step_minutes or self.duration_minutes,
        )


class ServiceOut(BaseModel):
    model_config = shown_as(examples.SERVICE_SEEN)

    service_id: UUID
    name: str
    duration_minutes: int
    buffer_before_minutes: int
    buffer_after_minutes: int
    min_notice_minutes: int
    horizon_days: int
    slot_step_minutes: int
    capacity: int
    retired: bool

    @classmethod
    def of(cls, service: Service) -> Self:
        terms = service.terms
        return cls(
            service_id=service.id,
            name=terms.name,
            duration_minutes=terms.duration_minutes,
            buffer_before_minutes=terms.buffer_before_minutes,
            buffer_after_minutes=terms.buffer_after_minutes,
            min_notice_minutes=terms.min_notice_minutes,
            horizon_days=terms.horizon_days,
            slot_step_minutes=terms.slot_step_minutes,
            capacity=terms.capacity,
            retired=terms.retired,
        )


class ServicePage(BaseModel):
    model_config = shown_as({"services": [examples.SERVICE_SEEN], "next": None})

    services: list[ServiceOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Service], *, limit: int) -> Self:
        page = found[:limit]
        return cls(
            services=[ServiceOut.of(service) for service in page],
            next=page[-1].id if len(found) > limit else None,
        )


class RoomIn(Body):
    model_config = shown_as({"name": "Sala 1"})

    name: Name


class RoomChangeIn(RoomIn):
    model_config = shown_as({"name": "Sala 1", "retired": False})

    retired: Annotated[Flag, Field(description="Not to be booked any more.")] = False


class RoomOut(BaseModel):
    model_config = shown_as(examples.ROOM_SEEN)

    room_id: UUID
    name: str
    retired: bool

    @classmethod
    def of(cls, room: Room) -> Self:
        return cls(room_id=room.id, name=room.name, retired=room.retired)


class RoomPage(BaseModel):
    model_config = shown_as({"rooms": [examples.ROOM_SEEN], "next": None})

    rooms: list[RoomOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Room], *, limit: int) -> Self:
        page = found[:limit]
        return cls(
            rooms=[RoomOut.of(room) for room in page], next=page[-1].id if len(found) > limit else None
        )
