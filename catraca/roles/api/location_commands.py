"""Commands of location over a WebSocket."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from catraca.domains import location
from catraca.domains.location import PINGS_AT_ONCE, PingIn, PingsOut, StatusIn, StatusOut
from catraca.domains.location.routes import LocationParts
from catraca.domains.notifications.sockets.service import Command
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.database import Database, Db
from catraca.platform.errors import Forbidden

_pings = TypeAdapter(Annotated[list[PingIn], Field(min_length=1, max_length=PINGS_AT_ONCE)])


def location_commands(parts: LocationParts, database: Database) -> Mapping[str, Command]:
    async def take_pings(caller: Principal, data: Mapping[str, Any]) -> Mapping[str, object]:
        driver = _driver(caller)
        sent = _pings.validate_python(data.get("pings", [data]))
        at = now()
        taken = await parts.desk.take({driver: [one.ping(at) for one in sent]})
        if taken.offline:
            raise location.DriverNotOnline
        return PingsOut.of(taken, [driver] * len(sent)).model_dump(mode="json")

    async def set_status(caller: Principal, data: Mapping[str, Any]) -> Mapping[str, object]:
        driver = _driver(caller)
        body = StatusIn.model_validate(data)

        async def work(db: Db) -> StatusOut:
            if body.online:
                ping = body.position.ping(now()) if body.position else None
                standing = await location.go_online(
                    db, parts.redis, driver, ping=ping, rules=parts.rules, fences=parts.fences, by=driver
                )
            else:
                standing = await location.go_offline(db, parts.redis, driver, by=driver)
            return StatusOut.of(driver, standing)

        return (await database.run(work)).model_dump(mode="json")

    return {"location.ping": take_pings, "location.status": set_status}


def _driver(caller: Principal) -> location.DriverId:
    if not caller.has("driver"):
        raise Forbidden
    return location.DriverId(caller.id)
