"""HTTP for analytics, operators only."""

from typing import Annotated

from fastapi import Query

from catraca.domains.analytics import service
from catraca.domains.analytics.model import DemandFilter, cells_within
from catraca.domains.analytics.schemas import AlertPage, CellName, DemandCursor, DemandPage, position_of
from catraca.platform.forms import Moment, PageCursor, PageLimit
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/analytics", tags=["analytics"], route_class=UnitOfWork)
ROUTERS = [router]


@router.get("/demand", summary="Read demand by hour and cell", responses=problems(401, 403, 422))
async def list_demand(
    db: OpenDb,
    operator: Operator,
    starts_at: Annotated[Moment | None, Query(alias="from", description="This hour and later ones.")] = None,
    ends_at: Annotated[
        Moment | None, Query(alias="to", description="Hours that start before this time.")
    ] = None,
    cell: Annotated[CellName | None, Query(description="Within this H3 cell, up to resolution 7.")] = None,
    failed_only: Annotated[bool, Query(description="Only hours and cells with failed searches.")] = False,
    before: Annotated[DemandCursor | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DemandPage:
    """Returns requests, matches and failures by hour and cell, the latest hours first."""
    wanted = DemandFilter(
        starts_at=starts_at,
        ends_at=ends_at,
        cells=None if cell is None else cells_within(cell),
        failed_only=failed_only,
    )
    last = None if before is None else position_of(before)
    return DemandPage.of(await service.find_demand(db, wanted, before=last, limit=limit + 1), limit=limit)


@router.get("/alerts", summary="List alerts of failed searches", responses=problems(401, 403, 422))
async def list_alerts(
    db: OpenDb,
    operator: Operator,
    before: PageCursor = None,
    limit: PageLimit = 50,
) -> AlertPage:
    """Returns the regions and windows in which too many searches failed, the newest first."""
    return AlertPage.of(await service.find_alerts(db, before=before, limit=limit + 1), limit=limit)
