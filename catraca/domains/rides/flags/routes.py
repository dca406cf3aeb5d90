"""HTTP for flags, for operators."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from catraca.domains.rides.flags import service
from catraca.domains.rides.flags.model import FlagId
from catraca.domains.rides.flags.schemas import FlagOut, FlagPage
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/ride-flags", route_class=UnitOfWork)


@router.get("", tags=["rides"], summary="List flagged rides", responses=problems(401, 403, 422))
async def list_ride_flags(
    db: OpenDb,
    operator: Operator,
    ride_id: Annotated[UUID | None, Query(description="Only of this ride.")] = None,
    reviewed: Annotated[bool, Query(description="Reviewed flags too.")] = False,
    before: PageCursor = None,
    limit: PageLimit = 50,
) -> FlagPage:
    """Returns the flags that wait for a review, newest first: rides that an operator should look at."""
    flags = await service.list_flags(
        db, ride_id=ride_id, only_open=not reviewed, before=before, limit=limit + 1
    )
    return FlagPage.of(flags, limit=limit)


@router.post(
    "/{flag_id}/review", tags=["rides"], summary="Review a flag", responses=problems(401, 403, 404, 422)
)
async def review_ride_flag(flag_id: UUID, db: OpenDb, operator: Operator) -> FlagOut:
    """Marks the flag as reviewed, which is audited. A repeat returns the first review."""
    return FlagOut.model_validate(await service.review_flag(db, FlagId(flag_id), by=operator.id))
