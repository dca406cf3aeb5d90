"""HTTP for services and rooms: translate, authorise, call one verb."""

from enum import Enum
from uuid import UUID

from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId
from catraca.domains.scheduling.routes.paging import After, Limit, Retired
from catraca.domains.scheduling.schemas.services import (
    RoomChangeIn,
    RoomIdsIn,
    RoomIdsOut,
    RoomIn,
    RoomOut,
    RoomPage,
    ServiceIn,
    ServiceOut,
    ServicePage,
)
from catraca.domains.scheduling.service import setting_up as service
from catraca.domains.scheduling.store import agendas as store
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/services", tags=TAGS, summary="Make a service", status_code=201, responses=problems(401, 403, 422)
)
async def create_service(body: ServiceIn, db: OpenDb, operator: Operator) -> ServiceOut:
    """Something that can be booked, once somebody does it."""
    return ServiceOut.of(await service.create_service(db, body.to_terms(), by=operator.id))


@router.get("/services", tags=TAGS, summary="List services", responses=problems(401, 422))
async def list_services(
    db: OpenDb, caller: Caller, after: After = None, limit: Limit = 50, retired: Retired = False
) -> ServicePage:
    """Answers services in the order of their ids, a page at a time."""
    found = await store.find_services(db, after=after, limit=limit + 1, retired=retired)
    return ServicePage.of(found, limit=limit)


@router.get("/services/{service_id}", tags=TAGS, summary="See a service", responses=problems(401, 404, 422))
async def get_service(service_id: UUID, db: OpenDb, caller: Caller) -> ServiceOut:
    return ServiceOut.of(await service.get_service(db, ServiceId(service_id)))


@router.put(
    "/services/{service_id}", tags=TAGS, summary="Change a service", responses=problems(401, 403, 404, 422)
)
async def change_service(service_id: UUID, body: ServiceIn, db: OpenDb, operator: Operator) -> ServiceOut:
    """For bookings from now on; what is booked stays."""
    changed = await service.change_service(db, ServiceId(service_id), body.to_terms(), by=operator.id)
    return ServiceOut.of(changed)


@router.get(
    "/services/{service_id}/rooms",
    tags=TAGS,
    summary="See where a service is done",
    responses=problems(401, 404, 422),
)
async def get_service_rooms(service_id: UUID, db: OpenDb, caller: Caller) -> RoomIdsOut:
    await service.get_service(db, ServiceId(service_id))
    return RoomIdsOut(room_ids=list(await store.rooms_of(db, ServiceId(service_id))))


@router.put(
    "/services/{service_id}/rooms",
    tags=TAGS,
    summary="Set where a service is done",
    responses=problems(401, 403, 404, 422),
)
async def set_service_rooms(service_id: UUID, body: RoomIdsIn, db: OpenDb, operator: Operator) -> RoomIdsOut:
    """A booking then takes one of them too; with none, it needs no room."""
    ids = [SubjectId(one) for one in body.room_ids]
    known = await service.set_rooms(db, ServiceId(service_id), ids, by=operator.id)
    return RoomIdsOut(room_ids=list(known))


@router.post("/rooms", tags=TAGS, summary="Make a room", status_code=201, responses=problems(401, 403, 422))
async def create_room(body: RoomIn, db: OpenDb, operator: Operator) -> RoomOut:
    return RoomOut.of(await service.create_room(db, name=body.name, by=operator.id))


@router.get("/rooms", tags=TAGS, summary="List rooms", responses=problems(401, 422))
async def list_rooms(
    db: OpenDb, caller: Caller, after: After = None, limit: Limit = 50, retired: Retired = False
) -> RoomPage:
    """Answers rooms in the order of their ids, a page at a time."""
    found = await store.find_rooms(db, after=after, limit=limit + 1, retired=retired)
    return RoomPage.of(found, limit=limit)


@router.get("/rooms/{room_id}", tags=TAGS, summary="See a room", responses=problems(401, 404, 422))
async def get_room(room_id: UUID, db: OpenDb, caller: Caller) -> RoomOut:
    return RoomOut.of(await service.get_room(db, SubjectId(room_id)))


@router.put("/rooms/{room_id}", tags=TAGS, summary="Change a room", responses=problems(401, 403, 404, 422))
async def change_room(room_id: UUID, body: RoomChangeIn, db: OpenDb, operator: Operator) -> RoomOut:
    changed = await service.change_room(
        db, SubjectId(room_id), name=body.name, retired=body.retired, by=operator.id
    )
    return RoomOut.of(changed)
