"""HTTP for the audit log, operators only."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from catraca.domains.audit import service
from catraca.domains.audit.model import Filter
from catraca.domains.audit.schemas import Action, AuditPage, FilterText
from catraca.platform.forms import Moment, PageCursor, PageLimit
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


async def _filter(
    subject_kind: Annotated[FilterText | None, Query(description="Such as `ride` or `user`.")] = None,
    subject_id: FilterText | None = None,
    action: Annotated[
        Action | None, Query(description="One action, or a prefix: `ride.matched`, `ride.*`.")
    ] = None,
    actor_id: UUID | None = None,
    starts_at: Annotated[Moment | None, Query(alias="from", description="At this time or later.")] = None,
    ends_at: Annotated[Moment | None, Query(alias="to", description="Before this time.")] = None,
) -> Filter:
    return Filter(
        subject_kind=subject_kind,
        subject_id=subject_id,
        action=action,
        actor_id=actor_id,
        starts_at=starts_at,
        ends_at=ends_at,
    )


@router.get("/audit", tags=["audit"], summary="Read the audit log", responses=problems(401, 403, 422))
async def list_audit(
    db: OpenDb,
    operator: Operator,
    wanted: Annotated[Filter, Depends(_filter)],
    before: PageCursor = None,
    limit: PageLimit = 50,
) -> AuditPage:
    """Returns a page of the audit log, the newest entry first.

    It holds every action of an operator with its actor, and every event of rides, searches and users.
    """
    return AuditPage.of(await service.find_entries(db, wanted, before=before, limit=limit + 1), limit=limit)
