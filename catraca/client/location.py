"""Status and positions of drivers over HTTP; an open socket does the same at a lower cost."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import Pings, Standing
from catraca.client.values import Ping


class Location:
    """Calls are about the caller, unless an operator or service gives a `driver_id`."""

    def __init__(self, http: Http, own_id: Callable[[], Awaitable[UUID]]) -> None:
        self._http: Final = http
        self._own_id: Final = own_id

    async def go_online(self, position: Ping | None = None, *, driver_id: UUID | None = None) -> Standing:
        """Safe to repeat."""
        return await self._set_status(
            driver_id, {"online": True, **({"position": position} if position else {})}
        )

    async def go_offline(self, *, driver_id: UUID | None = None) -> Standing:
        """Safe to repeat."""
        return await self._set_status(driver_id, {"online": False})

    async def ping(self, *pings: Ping, driver_id: UUID | None = None) -> Pings:
        """Send positions, up to 100 at once."""
        path = f"/v1/location/drivers/{driver_id or await self._own_id()}/pings"
        return await self._http.request("POST", path, Pings, body=_one_or_list(pings))

    async def _set_status(self, driver_id: UUID | None, body: dict[str, Any]) -> Standing:
        path = f"/v1/location/drivers/{driver_id or await self._own_id()}/status"
        return await self._http.request("PUT", path, Standing, body=body)


def _one_or_list(pings: Sequence[Ping]) -> object:
    return pings[0] if len(pings) == 1 else pings
