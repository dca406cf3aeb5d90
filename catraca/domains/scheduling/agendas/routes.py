"""Routes for workers with their hours, services and rooms."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.agendas import service
from catraca.domains.scheduling.agendas.schemas import (
    HoursOut,
    Overrides,
    RoomChangeIn,
    RoomIdsIn,
    RoomIdsOut,
    RoomIn,
    RoomOut,
    RoomPage,
    Rules,
    ServiceIdsIn,
    ServiceIdsOut,
    ServiceIn,
    ServiceOut,
    ServicePage,
    WorkerChangedOut,
    WorkerChangeIn,
    WorkerIn,
    WorkerOut,
    WorkerPage,
)
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId
from catraca.domains.scheduling.shared.routes import TAGS, Retired, worker_queue
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/workers",
    tags=TAGS,
    summary="Create a worker",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def create_worker(body: WorkerIn, db: OpenDb, operator: Operator) -> WorkerOut:
    """The worker can be booked once it has hours and services."""
    worker = await service.create_worker(db, body.to_details(), user_id=body.to_user_id(), by=operator.id)
    return WorkerOut.of(worker)


@router.get("/workers", tags=TAGS, summary="List workers", responses=problems(401, 422))
async def list_workers(
    db: OpenDb,
    caller: Caller,
    service_id: Annotated[UUID | None, Query(description="Only workers who do this service.")] = None,
    after: PageCursor = None,
    limit: PageLimit = 50,
    retired: Retired = False,
) -> WorkerPage:
    """Pages of workers, ordered by id."""
    found = await service.find_workers(
        db,
        service_id=None if service_id is None else ServiceId(service_id),
        after=after,
        limit=limit + 1,
        retired=retired,
    )
    return WorkerPage.of(found, limit=limit)


@router.get("/workers/{worker_id}", tags=TAGS, summary="Get a worker", responses=problems(401, 404, 422))
async def get_worker(worker_id: UUID, db: OpenDb, caller: Caller) -> WorkerOut:
    return WorkerOut.of(await service.get_worker(db, SubjectId(worker_id)))


@router.put(
    "/workers/{worker_id}", tags=TAGS, summary="Change a worker", responses=problems(401, 403, 404, 422)
)
@within(worker_queue)
async def change_worker(
    worker_id: UUID, body: WorkerChangeIn, db: OpenDb, operator: Operator
) -> WorkerChangedOut:
    """`outside` lists the upcoming appointments outside the new hours. They are not moved."""
    worker, outside = await service.change_worker(db, SubjectId(worker_id), body.to_details(), by=operator.id)
    return WorkerChangedOut(**WorkerOut.of(worker).model_dump(), outside=list(outside))


@router.get(
    "/workers/{worker_id}/hours",
    tags=TAGS,
    summary="Get a worker's hours",
    responses=problems(401, 403, 404, 422),
)
async def get_hours(worker_id: UUID, db: OpenDb, caller: Caller) -> HoursOut:
    """For the worker and operators. Clients see free slots instead."""
    worker = await service.get_managed_worker(db, caller, SubjectId(worker_id))
    return HoursOut.of(await service.get_hours(db, worker))


@router.put(
    "/workers/{worker_id}/rules",
    tags=TAGS,
    summary="Set a worker's weekly hours",
    responses=problems(401, 403, 404, 422),
)
@within(worker_queue)
async def set_rules(worker_id: UUID, body: Rules, db: OpenDb, caller: Caller) -> HoursOut:
    """Replaces all rules. `outside` lists the upcoming appointments outside the new hours."""
    worker = await service.get_managed_worker(db, caller, SubjectId(worker_id))
    rules = [rule.to_rule() for rule in body]
    return HoursOut.of(await service.set_rules(db, worker.id, rules, by=caller.id))


@router.put(
    "/workers/{worker_id}/overrides",
    tags=TAGS,
    summary="Set the days with other hours",
    responses=problems(401, 403, 404, 422),
)
@within(worker_queue)
async def set_overrides(worker_id: UUID, body: Overrides, db: OpenDb, caller: Caller) -> HoursOut:
    """Replaces all overrides. A day that is listed twice has the shifts of both."""
    worker = await service.get_managed_worker(db, caller, SubjectId(worker_id))
    days = {override.day: list[tuple[int, int]]() for override in body}
    for override in body:
        days[override.day] += override.minutes()
    return HoursOut.of(await service.set_overrides(db, worker.id, days, by=caller.id))


@router.get(
    "/workers/{worker_id}/services",
    tags=TAGS,
    summary="Get a worker's services",
    responses=problems(401, 404, 422),
)
async def get_worker_services(worker_id: UUID, db: OpenDb, caller: Caller) -> ServiceIdsOut:
    return ServiceIdsOut(service_ids=list(await service.get_services_of(db, SubjectId(worker_id))))


@router.put(
    "/workers/{worker_id}/services",
    tags=TAGS,
    summary="Set a worker's services",
    responses=problems(401, 403, 404, 422),
)
@within(worker_queue)
async def set_worker_services(
    worker_id: UUID, body: ServiceIdsIn, db: OpenDb, operator: Operator
) -> ServiceIdsOut:
    """Replaces all services of the worker. Booked appointments stay."""
    ids = [ServiceId(one) for one in body.service_ids]
    known = await service.set_services(db, SubjectId(worker_id), ids, by=operator.id)
    return ServiceIdsOut(service_ids=list(known))


@router.post(
    "/services", tags=TAGS, summary="Create a service", status_code=201, responses=problems(401, 403, 422)
)
async def create_service(body: ServiceIn, db: OpenDb, operator: Operator) -> ServiceOut:
    """The service can be booked once a worker does it."""
    return ServiceOut.of(await service.create_service(db, body.to_terms(), by=operator.id))


@router.get("/services", tags=TAGS, summary="List services", responses=problems(401, 422))
async def list_services(
    db: OpenDb, caller: Caller, after: PageCursor = None, limit: PageLimit = 50, retired: Retired = False
) -> ServicePage:
    """Pages of services, ordered by id."""
    found = await service.find_services(db, after=after, limit=limit + 1, retired=retired)
    return ServicePage.of(found, limit=limit)


@router.get("/services/{service_id}", tags=TAGS, summary="Get a service", responses=problems(401, 404, 422))
async def get_service(service_id: UUID, db: OpenDb, caller: Caller) -> ServiceOut:
    return ServiceOut.of(await service.get_service(db, ServiceId(service_id)))


@router.put(
    "/services/{service_id}", tags=TAGS, summary="Change a service", responses=problems(401, 403, 404, 422)
)
async def change_service(service_id: UUID, body: ServiceIn, db: OpenDb, operator: Operator) -> ServiceOut:
    """For later bookings. Booked appointments stay."""
    changed = await service.change_service(db, ServiceId(service_id), body.to_terms(), by=operator.id)
    return ServiceOut.of(changed)


@router.get(
    "/services/{service_id}/rooms",
    tags=TAGS,
    summary="Get a service's rooms",
    responses=problems(401, 404, 422),
)
async def get_service_rooms(service_id: UUID, db: OpenDb, caller: Caller) -> RoomIdsOut:
    return RoomIdsOut(room_ids=list(await service.get_rooms_of(db, ServiceId(service_id))))


@router.put(
    "/services/{service_id}/rooms",
    tags=TAGS,
    summary="Set a service's rooms",
    responses=problems(401, 403, 404, 422),
)
async def set_service_rooms(service_id: UUID, body: RoomIdsIn, db: OpenDb, operator: Operator) -> RoomIdsOut:
    """A booking then takes one of these rooms; with an empty list, it needs no room."""
    ids = [SubjectId(one) for one in body.room_ids]
    known = await service.set_rooms(db, ServiceId(service_id), ids, by=operator.id)
    return RoomIdsOut(room_ids=list(known))


@router.post("/rooms", tags=TAGS, summary="Create a room", status_code=201, responses=problems(401, 403, 422))
async def create_room(body: RoomIn, db: OpenDb, operator: Operator) -> RoomOut:
    return RoomOut.of(await service.create_room(db, name=body.name, by=operator.id))


@router.get("/rooms", tags=TAGS, summary="List rooms", responses=problems(401, 422))
async def list_rooms(
    db: OpenDb, caller: Caller, after: PageCursor = None, limit: PageLimit = 50, retired: Retired = False
) -> RoomPage:
    """Pages of rooms, ordered by id."""
    found = await service.find_rooms(db, after=after, limit=limit + 1, retired=retired)
    return RoomPage.of(found, limit=limit)


@router.get("/rooms/{room_id}", tags=TAGS, summary="Get a room", responses=problems(401, 404, 422))
async def get_room(room_id: UUID, db: OpenDb, caller: Caller) -> RoomOut:
    return RoomOut.of(await service.get_room(db, SubjectId(room_id)))


@router.put("/rooms/{room_id}", tags=TAGS, summary="Change a room", responses=problems(401, 403, 404, 422))
async def change_room(room_id: UUID, body: RoomChangeIn, db: OpenDb, operator: Operator) -> RoomOut:
    changed = await service.change_room(
        db, SubjectId(room_id), name=body.name, retired=body.retired, by=operator.id
    )
    return RoomOut.of(changed)
