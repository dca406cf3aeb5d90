"""HTTP for pings."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.location.pings.schemas import GatewayPingsIn, PingsIn, PingsOut, sent_pings
from catraca.domains.location.pings.service import PingRecorder
from catraca.domains.location.routes import OperatorOrService, require_driver
from catraca.platform.clock import now
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import Staged, make_router, stores_no_response, wired

Recorder = Annotated[PingRecorder, Depends(wired(PingRecorder))]

# Pings go to Redis: no transaction is open during the call to it, and repeating it is safe.
router = make_router(prefix="/v1/location", route_class=Staged)


@router.post(
    "/drivers/{driver_id}/pings",
    tags=["location"],
    summary="Send a driver's positions",
    responses=problems(401, 403, 409, 413, 422, 503),
)
@stores_no_response
async def send_pings(driver_id: UUID, body: PingsIn, caller: Caller, recorder: Recorder) -> PingsOut:
    """Takes one ping, or a list of up to 100; returns the rejected ones with their reasons.

    Pings rejected as `imprecise`, `out_of_order` or `impossible` still keep the driver online; those rejected
    as `stale` or `future_dated` do not. 409: the driver is offline.
    """
    driver = require_driver(caller, driver_id)
    sent = body if isinstance(body, list) else [body]
    at = now()
    return PingsOut.of(await recorder.record_driver(driver, [one.to_ping(at) for one in sent]))


@router.post(
    "/pings",
    tags=["location"],
    summary="Send many drivers' positions",
    responses=problems(401, 403, 413, 422, 503),
)
@stores_no_response
async def send_many_pings(body: GatewayPingsIn, caller: OperatorOrService, recorder: Recorder) -> PingsOut:
    """For a device gateway: up to 500 pings of any drivers."""
    return PingsOut.of(await recorder.record(sent_pings(body, now())))
