"""HTTP for where drivers are: translate, authorise, call one verb."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Response

from catraca.domains.communities import Fences
from catraca.domains.location.errors import DriverNotOnline
from catraca.domains.location.model import MAX_LATITUDE, DriverId, PingRules
from catraca.domains.location.schemas import (
    GatewayPingsIn,
    LockIn,
    LockOut,
    NearbyOut,
    NearOut,
    NewShareOut,
    PingsIn,
    PingsOut,
    PositionOut,
    ShareIn,
    SharesOut,
    StatusIn,
    StatusOut,
    TripOut,
    UnlockOut,
    by_driver,
)
from catraca.domains.location.service.locks import lock_driver, unlock_driver
from catraca.domains.location.service.pings import PingDesk
from catraca.domains.location.service.presence import go_offline, go_online
from catraca.domains.location.service.searching import Search, find_nearby
from catraca.domains.location.service.sharing import list_shares, read_trip, revoke_share, share_trip
from catraca.domains.location.service.showing import read_position
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.errors import Forbidden
from catraca.platform.geo import Place
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import (
    InTransaction,
    OpenDb,
    Staged,
    UnitOfWork,
    make_router,
    stores_no_response,
    wired,
)
from catraca.platform.redis_client import RedisClient

LARGEST_RADIUS_METERS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationParts:
    """What the API's role hands to these routes."""

    redis: RedisClient
    desk: PingDesk
    rules: PingRules
    fences: Fences
    presence_timeout: timedelta
    lock_ttl: timedelta


Parts = Annotated[LocationParts, Depends(wired(LocationParts))]


async def _for_others(caller: Caller) -> Principal:
    caller.require("operator", "service")
    return caller


ForOthers = Annotated[Principal, Depends(_for_others)]
"""Operators and services: those who may ask about any driver."""


def _own(caller: Principal, driver_id: UUID) -> DriverId:
    """The caller's own id, as a driver; operators and services may name anybody's."""
    if not caller.acts_for_others and not (caller.id == driver_id and caller.has("driver")):
        raise Forbidden
    return DriverId(driver_id)


router = make_router(prefix="/v1/location", route_class=UnitOfWork)
# Pings and locks are for Redis: no transaction is open while it is asked, and repeating them is safe.
staged_router = make_router(prefix="/v1/location", route_class=Staged)
# What is seen of a ride from outside: where its driver is, and by whom else.
trip_router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router, staged_router, trip_router]


@router.put(
    "/drivers/{driver_id}/status",
    tags=["location"],
    summary="Begin or stop working",
    responses=problems(401, 403, 422),
)
async def set_status(driver_id: UUID, body: StatusIn, db: OpenDb, caller: Caller, parts: Parts) -> StatusOut:
    """Puts the driver online or offline; doing it again changes nothing. The silent go offline unasked."""
    driver = _own(caller, driver_id)
    if body.online:
        ping = body.position.ping(now()) if body.position else None
        standing = await go_online(
            db, parts.redis, driver, ping=ping, rules=parts.rules, fences=parts.fences, by=caller.id
        )
    else:
        standing = await go_offline(db, parts.redis, driver, by=caller.id)
    return StatusOut.of(driver, standing)


@staged_router.post(
    "/drivers/{driver_id}/pings",
    tags=["location"],
    summary="Tell where a driver is",
    responses=problems(401, 403, 409, 413, 422, 503),
)
@stores_no_response
async def send_pings(driver_id: UUID, body: PingsIn, caller: Caller, parts: Parts) -> PingsOut:
    """Takes one ping, or a list of up to 100; says which do not move the driver, and why.

    `imprecise`, `out_of_order` and `impossible` ones still tell that the driver is there; `stale` and
    `future_dated` ones tell nothing. 409: the driver is offline.
    """
    driver = _own(caller, driver_id)
    sent = body if isinstance(body, list) else [body]
    at = now()
    taken = await parts.desk.take({driver: [one.ping(at) for one in sent]})
    if taken.offline:
        raise DriverNotOnline
    return PingsOut.of(taken, [driver] * len(sent))


@staged_router.post(
    "/pings",
    tags=["location"],
    summary="Tell where many drivers are",
    responses=problems(401, 403, 413, 422, 503),
)
@stores_no_response
async def send_many_pings(body: GatewayPingsIn, caller: ForOthers, parts: Parts) -> PingsOut:
    """For a gateway of devices: the same for many drivers at once, up to 500 pings."""
    taken = await parts.desk.take(by_driver(body, now()))
    return PingsOut.of(taken, [DriverId(one.driver_id) for one in body])


@router.get(
    "/drivers/nearby",
    tags=["location"],
    summary="Find drivers near by",
    responses=problems(401, 403, 422, 503),
)
async def list_nearby(
    db: OpenDb,
    caller: ForOthers,
    parts: Parts,
    lat: Annotated[float, Query(ge=-MAX_LATITUDE, le=MAX_LATITUDE, allow_inf_nan=False)],
    lng: Annotated[float, Query(ge=-180, le=180, allow_inf_nan=False)],
    radius_m: Annotated[float, Query(ge=1, le=LARGEST_RADIUS_METERS, allow_inf_nan=False)] = 5000,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    everybody: Annotated[bool, Query(alias="all", description="Also who is held or was silent.")] = False,
) -> NearbyOut:
    """Answers the nearest who are available: at work, heard of lately, held by no offer and no ride."""
    search = Search(
        place=Place(lat, lng),
        radius_meters=radius_m,
        limit=limit,
        everybody=everybody,
        fresh=parts.presence_timeout,
    )
    source, drivers = await find_nearby(db, parts.redis, search)
    at = now()
    return NearbyOut(source=source, drivers=[NearOut.of(one, at) for one in drivers])


@staged_router.post(
    "/drivers/{driver_id}/lock",
    tags=["location"],
    summary="Lock a driver for a ride",
    response_model_exclude_none=True,
    responses=problems(401, 403, 422, 503),
)
@stores_no_response
async def lock(
    driver_id: UUID, body: LockIn, caller: ForOthers, transact: InTransaction, parts: Parts
) -> LockOut:
    """Holds the driver for this ride for a while; the same ride again renews, another is told so."""
    ttl = parts.lock_ttl if body.ttl_seconds is None else timedelta(seconds=body.ttl_seconds)
    lease = await lock_driver(parts.redis, transact, DriverId(driver_id), ride_id=body.ride_id, ttl=ttl)
    return LockOut.of(lease)


@staged_router.delete(
    "/drivers/{driver_id}/lock",
    tags=["location"],
    summary="Let go of a driver",
    responses=problems(401, 403, 422, 503),
)
@stores_no_response
async def unlock(driver_id: UUID, ride_id: UUID, caller: ForOthers, parts: Parts) -> UnlockOut:
    """Releases what this ride holds; another ride's lock stays."""
    return UnlockOut(released=await unlock_driver(parts.redis, DriverId(driver_id), ride_id=ride_id))


@trip_router.get(
    "/rides/{ride_id}/position",
    tags=["location"],
    summary="See where a ride's driver is",
    response_model=PositionOut,
    response_model_exclude_none=True,
    responses={204: {"description": "Nobody knows, or not lately"}, **problems(401, 404, 409, 422)},
)
async def read_ride_position(
    ride_id: UUID, db: OpenDb, caller: Caller, parts: Parts
) -> PositionOut | Response:
    """Answers it to the ride's passenger, its driver and operators, from its acceptance to its end."""
    ping = await read_position(
        db,
        parts.redis,
        ride_id,
        caller_id=caller.id,
        sees_all=caller.acts_for_others,
        fresh=parts.presence_timeout,
    )
    return Response(status_code=204) if ping is None else PositionOut.of(ping)


@trip_router.post(
    "/rides/{ride_id}/shares",
    tags=["location"],
    summary="Make a link to a trip",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
@stores_no_response
async def share_ride(ride_id: UUID, db: OpenDb, caller: Caller, body: ShareIn | None = None) -> NewShareOut:
    """Lets whoever has the link follow the trip; for its passenger, until it ends. A repeat makes another."""
    ttl = timedelta(seconds=(body or ShareIn()).ttl_seconds)
    share, token = await share_trip(db, ride_id, by=caller.id, sees_all=caller.acts_for_others, ttl=ttl)
    return NewShareOut.of(share, token)


@trip_router.get(
    "/rides/{ride_id}/shares",
    tags=["location"],
    summary="List the links to a trip",
    responses=problems(401, 404, 422),
)
async def list_ride_shares(ride_id: UUID, db: OpenDb, caller: Caller) -> SharesOut:
    """Answers the links that work, without their tokens, to the ride's passenger and to operators."""
    return SharesOut.of(await list_shares(db, ride_id, by=caller.id, sees_all=caller.acts_for_others))


@trip_router.delete(
    "/rides/{ride_id}/shares/{share_id}",
    tags=["location"],
    summary="Revoke a link to a trip",
    status_code=204,
    responses=problems(401, 404, 422),
)
async def revoke_ride_share(ride_id: UUID, share_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Ends the link at once; also by operators. Safe to repeat."""
    await revoke_share(db, ride_id, share_id, by=caller.id, sees_all=caller.acts_for_others)


@trip_router.get(
    "/trips/{token}",
    tags=["location"],
    summary="Follow a trip by its link",
    response_model_exclude_none=True,
    responses=problems(404),
)
async def follow_trip(token: str, db: OpenDb, parts: Parts) -> TripOut:
    """Answers whoever has the link, without a token of their own.

    Before a driver has accepted it is only the status; after the end, for an hour, that it ended, and roughly
    when and where.
    """
    return TripOut.of(await read_trip(db, parts.redis, token, fresh=parts.presence_timeout))
