"""HTTP for the search for drivers."""

from typing import Annotated

from fastapi import Query

from catraca.domains.location.nearby.model import Search
from catraca.domains.location.nearby.schemas import NearbyOut, NearbyQuery, NearOut
from catraca.domains.location.nearby.service import find_nearby
from catraca.domains.location.routes import OperatorOrService, Parts
from catraca.platform.clock import now
from catraca.platform.geo import Place
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

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
    query: Annotated[NearbyQuery, Query()],
) -> NearbyOut:
    """Returns the nearest available drivers: online, with a recent ping, without an offer or a ride."""
    search = Search(
        place=Place(query.lat, query.lng),
        radius_meters=query.radius_m,
        limit=query.limit,
        include_unavailable=query.include_unavailable,
        fresh=parts.presence_timeout,
    )
    source, drivers = await find_nearby(db, parts.redis, search)
    at = now()
    return NearbyOut(source=source, drivers=[NearOut.of(one, at) for one in drivers])
