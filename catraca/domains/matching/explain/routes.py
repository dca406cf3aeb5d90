"""HTTP for the history of a ride."""

from uuid import UUID

from catraca.domains.matching.explain.schemas import TimelineOut
from catraca.domains.matching.explain.service import explain_ride
from catraca.domains.rides import RideId
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.get(
    "/rides/{ride_id}/timeline",
    tags=["rides"],
    summary="Read a ride's history",
    responses=problems(401, 403, 404, 422),
)
async def read_timeline(ride_id: UUID, db: OpenDb, operator: Operator) -> TimelineOut:
    """Returns all status changes, searches and offers of a ride, with their results.

    `story` has them in one list by time. It shows why no driver came: the radius of each search, the drivers
    it saw and why they were not asked, the answers to each offer, the waits, and the end.
    """
    return TimelineOut.of(await explain_ride(db, RideId(ride_id)))
