"""HTTP for workers, what they do and when they work: translate, authorise, call one verb."""

from enum import Enum
from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId
from catraca.domains.scheduling.routes.paging import After, Limit, Retired
from catraca.domains.scheduling.routes.parties import check_agenda
from catraca.domains.scheduling.routes.turns import in_line
from catraca.domains.scheduling.schemas.workers import (
    HoursOut,
    Overrides,
    Rules,
    ServiceIdsIn,
    ServiceIdsOut,
    WorkerChangedOut,
    WorkerChangeIn,
    WorkerIn,
    WorkerOut,
    WorkerPage,
)
from catraca.domains.scheduling.service import setting_up as service
from catraca.domains.scheduling.store import agendas as store
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, within

TAGS: list[str | Enum] = ["scheduling"]

router = make_router(prefix="/v1/scheduling", route_class=UnitOfWork)


@router.post(
    "/workers",
    tags=TAGS,
    summary="Make a worker",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def create_worker(body: WorkerIn, db: OpenDb, operator: Operator) -> WorkerOut:
    """Somebody whose time can be booked, once they have hours and services."""
    worker = await service.create_worker(
        db,
        name=body.name,
        time_zone=body.time_zone,
        user_id=body.to_user_id(),
        holidays=body.to_holidays(),
        by=operator.id,
    )
    return WorkerOut.of(worker)


@router.get("/workers", tags=TAGS, summary="List workers", responses=problems(401, 422))
async def list_workers(
    db: OpenDb,
    caller: Caller,
    service_id: Annotated[UUID | None, Query(description="Only those who do this.")] = None,
    after: After = None,
    limit: Limit = 50,
    retired: Retired = False,
) -> WorkerPage:
    """Answers workers in the order of their ids, a page at a time."""
    found = await store.find_workers(
        db,
        service_id=None if service_id is None else ServiceId(service_id),
        after=after,
        limit=limit + 1,
        retired=retired,
    )
    return WorkerPage.of(found, limit=limit)


@router.get("/workers/{worker_id}", tags=TAGS, summary="See a worker", responses=problems(401, 404, 422))
async def get_worker(worker_id: UUID, db: OpenDb, caller: Caller) -> WorkerOut:
    return WorkerOut.of(await service.get_worker(db, SubjectId(worker_id)))


@router.put(
    "/workers/{worker_id}", tags=TAGS, summary="Change a worker", responses=problems(401, 403, 404, 422)
)
@within(in_line)
async def change_worker(
    worker_id: UUID, body: WorkerChangeIn, db: OpenDb, operator: Operator
) -> WorkerChangedOut:
    """Answers, too, which upcoming appointments the change leaves outside the hours: they stay."""
    worker, outside = await service.change_worker(
        db,
        SubjectId(worker_id),
        name=body.name,
        time_zone=body.time_zone,
        holidays=body.to_holidays(),
        retired=body.retired,
        by=operator.id,
    )
    return WorkerChangedOut(**WorkerOut.of(worker).model_dump(), outside=list(outside))


@router.get(
    "/workers/{worker_id}/hours",
    tags=TAGS,
    summary="See a worker's hours",
    responses=problems(401, 403, 404, 422),
)
async def get_hours(worker_id: UUID, db: OpenDb, caller: Caller) -> HoursOut:
    """For the worker and operators; others see what is free."""
    worker = await service.get_worker(db, SubjectId(worker_id))
    check_agenda(caller, worker)
    return HoursOut.of(worker, await service.read_hours(db, worker))


@router.put(
    "/workers/{worker_id}/rules",
    tags=TAGS,
    summary="Set a worker's weekly hours",
    responses=problems(401, 403, 404, 422),
)
@within(in_line)
async def set_rules(worker_id: UUID, body: Rules, db: OpenDb, caller: Caller) -> HoursOut:
    """All of them, instead of those before. Answers, too, which upcoming appointments now lie outside."""
    check_agenda(caller, await service.get_worker(db, SubjectId(worker_id)))
    rules = [rule.to_rule() for rule in body]
    outside = await service.set_rules(db, SubjectId(worker_id), rules, by=caller.id)
    worker = await service.get_worker(db, SubjectId(worker_id))
    return HoursOut.of(worker, await service.read_hours(db, worker), outside)


@router.put(
    "/workers/{worker_id}/overrides",
    tags=TAGS,
    summary="Set the days with other hours",
    responses=problems(401, 403, 404, 422),
)
@within(in_line)
async def set_overrides(worker_id: UUID, body: Overrides, db: OpenDb, caller: Caller) -> HoursOut:
    """All of them, instead of those before; a day named twice has the hours of both."""
    check_agenda(caller, await service.get_worker(db, SubjectId(worker_id)))
    days = {override.day: list[tuple[int, int]]() for override in body}
    for override in body:
        days[override.day] += override.minutes()
    outside = await service.set_overrides(db, SubjectId(worker_id), days, by=caller.id)
    worker = await service.get_worker(db, SubjectId(worker_id))
    return HoursOut.of(worker, await service.read_hours(db, worker), outside)


@router.get(
    "/workers/{worker_id}/services",
    tags=TAGS,
    summary="See what a worker does",
    responses=problems(401, 404, 422),
)
async def get_worker_services(worker_id: UUID, db: OpenDb, caller: Caller) -> ServiceIdsOut:
    worker = await service.get_worker(db, SubjectId(worker_id))
    return ServiceIdsOut(service_ids=list(await store.services_of(db, worker.no)))


@router.put(
    "/workers/{worker_id}/services",
    tags=TAGS,
    summary="Set what a worker does",
    responses=problems(401, 403, 404, 422),
)
@within(in_line)
async def set_worker_services(
    worker_id: UUID, body: ServiceIdsIn, db: OpenDb, operator: Operator
) -> ServiceIdsOut:
    """All of it, instead of what was before; what is booked stays."""
    ids = [ServiceId(one) for one in body.service_ids]
    known = await service.set_services(db, SubjectId(worker_id), ids, by=operator.id)
    return ServiceIdsOut(service_ids=list(known))
