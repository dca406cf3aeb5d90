"""What the routes of location's features share: their parts, and the check of the caller."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.location.model import DriverId
from catraca.platform.auth import Principal
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller
from catraca.platform.http.route import wired
from catraca.platform.redis_client import RedisClient


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationParts:
    """Values that the API role passes to these routes."""

    redis: RedisClient
    presence_timeout: timedelta
    lock_ttl: timedelta


Parts = Annotated[LocationParts, Depends(wired(LocationParts))]


async def _operator_or_service(caller: Caller) -> Principal:
    caller.require("operator", "service")
    return caller


OperatorOrService = Annotated[Principal, Depends(_operator_or_service)]


def require_driver(caller: Principal, driver_id: UUID) -> DriverId:
    """Allow the driver and, for any driver, operators and services."""
    if not caller.acts_for_others and not (caller.id == driver_id and caller.has("driver")):
        raise Forbidden
    return DriverId(driver_id)
