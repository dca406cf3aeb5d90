"""Commands that drivers send over a WebSocket. The same verbs serve the HTTP routes.

A command takes the caller and the message's data and returns the reply; it raises a refusal, or pydantic's
`ValidationError` for malformed data.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from catraca.domains.location.model import DriverId
from catraca.domains.location.pings.schemas import PingList, PingsOut
from catraca.domains.location.pings.service import PingRecorder
from catraca.domains.location.presence.model import DriverStatus
from catraca.domains.location.presence.schemas import DriverStatusIn, DriverStatusOut
from catraca.domains.location.presence.service import PresenceParts, set_status
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.database import Db, Transact

Command = Callable[[Principal, Mapping[str, Any]], Awaitable[Mapping[str, object]]]

_pings = TypeAdapter(PingList)


def socket_commands(
    transact: Transact, presence: PresenceParts, recorder: PingRecorder
) -> Mapping[str, Command]:
    async def record_pings(caller: Principal, data: Mapping[str, Any]) -> Mapping[str, object]:
        driver_id = _driver(caller)
        sent = _pings.validate_python(data.get("pings", [data]))
        at = now()
        results = await recorder.record_driver(driver_id, [one.to_ping(at) for one in sent])
        return PingsOut.of(results).model_dump(mode="json")

    async def change_status(caller: Principal, data: Mapping[str, Any]) -> Mapping[str, object]:
        driver_id = _driver(caller)
        body = DriverStatusIn.model_validate(data)
        ping = body.position.to_ping(now()) if body.position else None

        async def work(db: Db) -> DriverStatus:
            return await set_status(db, presence, driver_id, online=body.online, ping=ping, by=driver_id)

        return DriverStatusOut.of(driver_id, await transact(work)).model_dump(mode="json")

    return {"location.ping": record_pings, "location.status": change_status}


def _driver(caller: Principal) -> DriverId:
    caller.require("driver")
    return DriverId(caller.id)
