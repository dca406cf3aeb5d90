"""HTTP for the search for drivers."""

from typing import Annotated

from fastapi import Query

from catraca.domains.location.model import MAX_LATITUDE
from catraca.domains.location.nearby.model import Search
from catraca.domains.location.nearby.schemas import NearbyOut, NearOut
from catraca.domains.location.nearby.service import find_nearby
from catraca.domains.location.routes import OperatorOrService, Parts
from catraca.platform.clock import now
from catraca.platform.geo import Place
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

MAX_RADIUS_METERS = 50_000

router = make_router(prefix="/v1/location", route_class=UnitOfWork)


@router.get(
    "/drivers/nearby",
    tags=["location"],
    summary="Find nearby drivers",
    responses=problems(401, 403, 422, 503),
)
async def list_nearby(
    db: OpenDb,
    caller: OperatorOrService,
    parts: Parts,
    lat: Annotated[float, Query(ge=-MAX_LATITUDE, le=MAX_LATITUDE, allow_inf_nan=False)],
    lng: Annotated[float, Query(ge=-180, le=180, allow_inf_nan=False)],
    radius_m: Annotated[float, Query(ge=1, le=MAX_RADIUS_METERS, allow_inf_nan=False)] = 5000,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    include_unavailable: Annotated[
        bool, Query(alias="all", description="Include online drivers who are not available.")
    ] = False,
) -> NearbyOut:
    """Returns the nearest available drivers: online, with a recent ping, without an offer or a ride."""
    search = Search(
        place=Place(lat, lng),
        radius_meters=radius_m,
        limit=limit,
        include_unavailable=include_unavailable,
        fresh=parts.presence_timeout,
    )
    source, drivers = await find_nearby(db, parts.redis, search)
    at = now()
    return NearbyOut(source=source, drivers=[NearOut.of(one, at) for one in drivers])
