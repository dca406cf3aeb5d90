"""Communities, and rides with their own drivers."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from catraca.client.http import Http, without_none
from catraca.client.models import Changes, Community, CommunityPage, CommunityRide
from catraca.client.values import Question

REQUEST = "/api/governance/ride/request"


class _RideOrQuestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The response to a request: a ride (200, 201) or a question (202)."""

    message: str
    ride: CommunityRide | None = None
    confirmation_token: str | None = None
    expires_at: datetime | None = None
    changes: Changes | None = None

    def value(self) -> CommunityRide | Question:
        if self.ride is not None:
            return self.ride
        assert self.confirmation_token is not None
        assert self.expires_at is not None
        assert self.changes is not None
        return Question(
            token=self.confirmation_token,
            expires_at=self.expires_at,
            message=self.message,
            changes=self.changes,
        )


class Communities:
    """A repeated request returns the same question, a repeated confirmation the same ride."""

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def at(self, *, lat: float, lng: float) -> list[Community]:
        """The communities around a place, the smallest first."""
        query = {"lat": lat, "lng": lng}
        return (await self._http.request("GET", "/v1/communities/at", CommunityPage, query=query)).communities

    async def request_ride(
        self,
        *,
        lat: float,
        lng: float,
        origin: str | None = None,
        destination: str | None = None,
        destination_lat: float | None = None,
        destination_lng: float | None = None,
        price: float | None = None,
        key: str | None = None,
    ) -> CommunityRide | Question:
        """A ride with the community's own drivers; if none is near, a question about other drivers."""
        body = {
            "type": "comunidade",
            "passengerLat": lat,
            "passengerLng": lng,
            "origin": origin,
            "destination": destination,
            "destinationLat": destination_lat,
            "destinationLng": destination_lng,
            "price": price,
        }
        return await self._ask(without_none(body), key)

    async def confirm(self, token: str, *, key: str | None = None) -> CommunityRide:
        """Accept drivers from elsewhere; a repeated confirmation returns the same ride."""
        found = await self._ask({"confirmationToken": token}, key)
        assert isinstance(found, CommunityRide)
        return found

    async def read(self, community_id: UUID) -> Community:
        return await self._http.request("GET", f"/v1/communities/{community_id}", Community)

    async def _ask(self, body: dict[str, Any], key: str | None) -> CommunityRide | Question:
        return (await self._http.request("POST", REQUEST, _RideOrQuestion, body=body, key=key)).value()
