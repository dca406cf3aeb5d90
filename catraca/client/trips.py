"""A ride on the map, and links by which a passenger lets others follow it."""

from typing import Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import NewShare, Position, Share, Shares, Trip


class Trips:
    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def position(self, ride_id: UUID) -> Position | None:
        """Where the ride's driver is; nothing when nobody knows. The socket tells it as it changes."""
        return await self._http.look(f"/v1/rides/{ride_id}/position", Position)

    async def share(self, ride_id: UUID, *, ttl_seconds: int | None = None) -> NewShare:
        """Make a link. It is told once: one whose answer was lost works unseen until revoked or expired."""
        body = {} if ttl_seconds is None else {"ttl_seconds": ttl_seconds}
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/shares", NewShare, body=body)

    async def shares(self, ride_id: UUID) -> list[Share]:
        """The links that work now."""
        return (await self._http.ask("GET", f"/v1/rides/{ride_id}/shares", Shares)).shares

    async def revoke(self, ride_id: UUID, share_id: UUID) -> None:
        """End a link at once; doing it again changes nothing."""
        await self._http.tell("DELETE", f"/v1/rides/{ride_id}/shares/{share_id}")

    async def follow(self, token: str) -> Trip:
        """As much of the trip as whoever has its link may see."""
        return await self._http.ask("GET", f"/v1/trips/{token}", Trip)
