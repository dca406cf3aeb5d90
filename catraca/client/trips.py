"""The driver's position on a ride, and links to follow a trip."""

from typing import Final
from uuid import UUID

from catraca.client.http import Http, without_none
from catraca.client.models import NewShare, Position, Share, Shares, Trip


class Trips:
    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def position(self, ride_id: UUID) -> Position | None:
        """The position of the ride's driver; None if unknown. The socket sends each change."""
        return await self._http.get_or_none(f"/v1/rides/{ride_id}/position", Position)

    async def share(self, ride_id: UUID, *, ttl_seconds: int | None = None) -> NewShare:
        """Create a link. Its token is in this response only; a lost one works until revoked or expired."""
        body = without_none({"ttl_seconds": ttl_seconds})
        return await self._http.request("POST", f"/v1/rides/{ride_id}/shares", NewShare, body=body)

    async def shares(self, ride_id: UUID) -> list[Share]:
        """The valid links of a ride."""
        return (await self._http.request("GET", f"/v1/rides/{ride_id}/shares", Shares)).shares

    async def revoke(self, ride_id: UUID, share_id: UUID) -> None:
        """Revoke a link. Safe to repeat."""
        await self._http.send("DELETE", f"/v1/rides/{ride_id}/shares/{share_id}")

    async def follow(self, token: str) -> Trip:
        """The trip, as shown to holders of its link."""
        return await self._http.request("GET", f"/v1/trips/{token}", Trip)
