"""Routes for workers and their hours."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.scheduling.agendas import service
from catraca.domains.scheduling.agendas.schemas import (
    HoursOut,
    Overrides,
    Rules,
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
