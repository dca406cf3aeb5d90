"""HTTP for web push subscriptions."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.notifications.push import service
from catraca.domains.notifications.push.errors import PushOff
from catraca.domains.notifications.push.schemas import DeviceOut, DevicesOut, PushKeyOut, SubscriptionIn
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired
from catraca.platform.web_push import PushHosts


@dataclass(frozen=True, slots=True, kw_only=True)
class PushParts:
    """Given by the API role. Without a public key web push is off."""

    public_key: str | None = None
    hosts: PushHosts


Parts = Annotated[PushParts, Depends(wired(PushParts))]

router = make_router(prefix="/v1", route_class=UnitOfWork)


@router.get(
    "/push/key",
    tags=["notifications"],
    summary="Read the server's push key",
    responses=problems(401, 409),
)
async def read_push_key(caller: Caller, parts: Parts) -> PushKeyOut:
    """Returns the key for a page's `pushManager.subscribe`. 409 `push_off` if web push is not configured."""
    return PushKeyOut(public_key=_public_key(parts))


@router.get(
    "/push/subscriptions", tags=["notifications"], summary="List your devices", responses=problems(401)
)
async def list_push_subscriptions(db: OpenDb, caller: Caller) -> DevicesOut:
    """Returns the caller's devices that are subscribed to web push."""
    return DevicesOut(items=[DeviceOut.of(one) for one in await service.list_devices(db, caller.id)])


@router.post(
    "/push/subscriptions",
    tags=["notifications"],
    summary="Subscribe a device",
    status_code=201,
    responses=problems(401, 409, 422),
)
async def subscribe_device(body: SubscriptionIn, db: OpenDb, caller: Caller, parts: Parts) -> DeviceOut:
    """Subscribes a device to web push, or renews it. A user's oldest devices beyond ten are removed.

    The device ends when your tokens are revoked, and is then subscribed again. A device of another account
    becomes yours if you give its keys; 409 `push_endpoint_taken` if they are not its keys.
    """
    _public_key(parts)
    device = await service.subscribe_device(db, caller, body.to_subscription(), hosts=parts.hosts)
    return DeviceOut.of(device)


@router.delete(
    "/push/subscriptions/{subscription_id}",
    tags=["notifications"],
    summary="Unsubscribe a device",
    status_code=204,
    responses=problems(401, 422),
)
async def unsubscribe_device(subscription_id: UUID, db: OpenDb, caller: Caller) -> None:
    """Ends a device's subscription. Repeating it changes nothing."""
    await service.unsubscribe_device(db, caller.id, subscription_id)


def _public_key(parts: PushParts) -> str:
    if parts.public_key is None:
        raise PushOff
    return parts.public_key
