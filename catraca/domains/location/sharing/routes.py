"""HTTP for trip links."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.location.routes import Parts
from catraca.domains.location.sharing.schemas import NewShareOut, ShareIn, SharesOut, TripOut
from catraca.domains.location.sharing.service import list_shares, read_trip, revoke_share, share_trip
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response

router = make_router(prefix="/v1", route_class=UnitOfWork)


@router.post(
    "/rides/{ride_id}/shares",
    tags=["location"],
    summary="Make a link to a trip",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
@stores_no_response
async def share_ride(ride_id: UUID, db: OpenDb, caller: Caller, body: ShareIn | None = None) -> NewShareOut:
    """For the ride's passenger, until the ride ends. A repeat makes another link.

    The link also ends when the passenger signs out everywhere or sets a new password.
    """
    ttl = timedelta(seconds=(body or ShareIn()).ttl_seconds)
    share, token = await share_trip(db, ride_id, caller=caller, ttl=ttl)
    return NewShareOut.of(share, token)


@router.get(
    "/rides/{ride_id}/shares",
    tags=["location"],
    summary="List the links to a trip",
    responses=problems(401, 404, 422),
)
async def list_ride_shares(ride_id: UUID, db: OpenDb, caller: Caller) -> SharesOut:
    """Returns the links that work, without their tokens. For the ride's passenger and operators."""
    return SharesOut.of(await list_shares(db, ride_id, by=caller.id, sees_all=caller.acts_for_others))


@router.delete(
    "/rides/{ride_id}/shares/{share_id}",
    tags=["location"],
    summary="Revoke a link to a trip",
    status_code=204,
    responses=problems(401, 404, 422),
)
async def revoke_ride_share(ride_id: UUID, share_id: UUID, db: OpenDb, caller: Caller) -> None:
    """The link stops working at once. For the ride's passenger and operators. Safe to repeat."""
    await revoke_share(db, ride_id, share_id, by=caller.id, sees_all=caller.acts_for_others)


@router.get(
    "/trips/{token}",
    tags=["location"],
    summary="Follow a trip by its link",
    response_model_exclude_none=True,
    responses=problems(404),
)
async def follow_trip(token: str, db: OpenDb, parts: Parts) -> TripOut:
    """Needs no sign-in: the link's token is enough.

    Before a driver accepted, it returns only the status; for an hour after the end, that the trip ended, and
    roughly when and where.
    """
    return TripOut.of(await read_trip(db, parts.redis, token, fresh=parts.presence_timeout))
