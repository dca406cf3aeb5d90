"""Bodies and answers of the routes for services and rooms."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.scheduling.catalog.model import Room, Service, ServiceTerms
from catraca.domains.scheduling.shared.schemas import ROOM_ID, SERVICE_ID, Ids, RetiredFlag
from catraca.platform.forms import Body, Name, examples, split_page

SERVICE: JsonDict = {
    "name": "Massagem",
    "duration_minutes": 60,
    "buffer_before_minutes": 0,
    "buffer_after_minutes": 15,
    "min_notice_minutes": 120,
    "horizon_days": 60,
    "slot_step_minutes": 30,
    "capacity": 1,
    "retired": False,
}
SERVICE_OUT: JsonDict = {"service_id": SERVICE_ID, **SERVICE}
ROOM_OUT: JsonDict = {"room_id": ROOM_ID, "name": "Sala 1", "retired": False}


class ServiceIdsIn(Body):
    model_config = examples({"service_ids": [SERVICE_ID]})

    service_ids: Ids


class ServiceIdsOut(BaseModel):
    model_config = examples({"service_ids": [SERVICE_ID]})

    service_ids: list[UUID]


class RoomIdsIn(Body):
    model_config = examples({"room_ids": [ROOM_ID]})

    room_ids: Ids


class RoomIdsOut(BaseModel):
    model_config = examples({"room_ids": [ROOM_ID]})

    room_ids: list[UUID]


class ServiceIn(Body):
    """A service and its terms."""

    model_config = examples(SERVICE)

    name: Name
    duration_minutes: Annotated[int, Field(strict=True, ge=1, le=1440)]
    buffer_before_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    buffer_after_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    min_notice_minutes: Annotated[
        int, Field(strict=True, ge=0, le=525_600, description="How long before the start at the latest.")
    ] = 0
    horizon_days: Annotated[
        int, Field(strict=True, ge=1, le=730, description="How many days ahead at the earliest.")
    ] = 60
    slot_step_minutes: Annotated[
        int | None,
        Field(strict=True, ge=1, le=1440, description="From slot to slot. Default: `duration_minutes`."),
    ] = None
    capacity: Annotated[int, Field(strict=True, ge=1, le=1000, description="Clients per session.")] = 1
    retired: RetiredFlag = False

    def to_terms(self) -> ServiceTerms:
        return ServiceTerms(
            **self.model_dump(exclude={"slot_step_minutes"}),
            slot_step_minutes=self.slot_step_minutes or self.duration_minutes,
        )


class ServiceOut(BaseModel):
    model_config = examples(SERVICE_OUT)

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
        return cls(service_id=service.id, **asdict(service.terms))


class ServicePage(BaseModel):
    model_config = examples({"services": [SERVICE_OUT], "next": None})

    services: list[ServiceOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Service], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda service: service.id)
        return cls(services=[ServiceOut.of(service) for service in page], next=after)


class RoomIn(Body):
    model_config = examples({"name": "Sala 1"})

    name: Name


class RoomChangeIn(RoomIn):
    model_config = examples({"name": "Sala 1", "retired": False})

    retired: RetiredFlag = False


class RoomOut(BaseModel):
    model_config = examples(ROOM_OUT)

    room_id: UUID
    name: str
    retired: bool

    @classmethod
    def of(cls, room: Room) -> Self:
        return cls(room_id=room.id, name=room.name, retired=room.retired)


class RoomPage(BaseModel):
    model_config = examples({"rooms": [ROOM_OUT], "next": None})

    rooms: list[RoomOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Room], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda room: room.id)
        return cls(rooms=[RoomOut.of(room) for room in page], next=after)
