"""HTTP for matching: why somebody came, or nobody."""

from uuid import UUID

from catraca.domains.matching.schemas import TimelineOut
from catraca.domains.matching.service.explaining import explain_ride
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
    """Answers every step of the ride, every look around for drivers and every offer, and what came of each.

    Why did nobody come? `story` tells it in order: how far out was looked, whom each search saw and why they
    were not asked, what each driver answered, what was waited for, and how it ended.
    """
    return TimelineOut.of(await explain_ride(db, RideId(ride_id)))
