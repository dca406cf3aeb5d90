"""HTTP for figures, operators only."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.analytics import store
from catraca.domains.analytics.model import DemandFilter, cells_within
from catraca.domains.analytics.schemas import AlertPage, CellName, Cursor, DemandPage, place_of
from catraca.platform.forms import Moment
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/analytics", route_class=UnitOfWork)
ROUTERS = [router]


@router.get(
    "/demand", tags=["analytics"], summary="Read demand and failures", responses=problems(401, 403, 422)
)
async def list_demand(
    db: OpenDb,
    operator: Operator,
    starts_at: Annotated[Moment | None, Query(alias="from", description="Hours from this one on.")] = None,
    ends_at: Annotated[Moment | None, Query(alias="to", description="Hours that begin before this.")] = None,
    cell: Annotated[CellName | None, Query(description="In this cell of H3, up to resolution 7.")] = None,
    failed_only: Annotated[bool, Query(description="Only where a search ended without a driver.")] = False,
    before: Annotated[Cursor | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DemandPage:
    """Answers what was asked for and what became of it, by hour and cell, the latest hours first."""
    wanted = DemandFilter(
        starts_at=starts_at,
        ends_at=ends_at,
        cells=None if cell is None else cells_within(cell),
        failed_only=failed_only,
    )
    last = None if before is None else place_of(before)
    return DemandPage.of(await store.find_demand(db, wanted, before=last, limit=limit + 1), limit=limit)


@router.get(
    "/alerts", tags=["analytics"], summary="Read where searches failed", responses=problems(401, 403, 422)
)
async def list_alerts(
    db: OpenDb,
    operator: Operator,
    before: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> AlertPage:
    """Answers where and when too many searches ended without a driver, the newest first."""
    return AlertPage.of(await store.find_alerts(db, before=before, limit=limit + 1), limit=limit)
