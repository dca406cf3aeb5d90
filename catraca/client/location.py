"""Where drivers are, over HTTP; the socket takes the same and is cheaper for those who have one open."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import Pings, Standing
from catraca.client.values import Ping


class Location:
    """For oneself; operators and services name the driver."""

    def __init__(self, http: Http, own_id: Callable[[], Awaitable[UUID]]) -> None:
        self._http: Final = http
        self._own_id: Final = own_id

    async def go_online(self, position: Ping | None = None, *, driver_id: UUID | None = None) -> Standing:
        """Begin to work; doing it again changes nothing."""
        return await self._set_status(
            driver_id, {"online": True, **({"position": position} if position else {})}
        )

    async def go_offline(self, *, driver_id: UUID | None = None) -> Standing:
        """Stop working; doing it again changes nothing."""
        return await self._set_status(driver_id, {"online": False})

    async def ping(self, *pings: Ping, driver_id: UUID | None = None) -> Pings:
        """Tell where the driver is, or was: up to 100 at once."""
        path = f"/v1/location/drivers/{driver_id or await self._own_id()}/pings"
        return await self._http.ask("POST", path, Pings, body=_one_or_list(pings))

    async def _set_status(self, driver_id: UUID | None, body: dict[str, Any]) -> Standing:
        path = f"/v1/location/drivers/{driver_id or await self._own_id()}/status"
        return await self._http.ask("PUT", path, Standing, body=body)


def _one_or_list(pings: Sequence[Ping]) -> object:
    return pings[0] if len(pings) == 1 else pings
