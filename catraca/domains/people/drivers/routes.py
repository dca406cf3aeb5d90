"""HTTP for drivers."""

from uuid import UUID

from catraca.domains.people.drivers import service
from catraca.domains.people.drivers.schemas import ApprovalIn
from catraca.domains.people.model import UserId
from catraca.domains.people.schemas import UserOut
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router]


@router.put(
    "/drivers/{driver_id}/approval",
    tags=["people"],
    summary="Approve, refuse or suspend a driver",
    responses=problems(401, 403, 404, 422),
)
async def decide_approval(driver_id: UUID, body: ApprovalIn, db: OpenDb, operator: Operator) -> UserOut:
    """Sets whether the driver may take rides; replaces the last decision."""
    user = await service.decide_approval(
        db, UserId(driver_id), body.approval, reason=body.reason, by=operator.id
    )
    return UserOut.of(user)
