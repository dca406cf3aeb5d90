"""Communities: which there are, and rides in them."""

from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import Community, CommunityAnswer, CommunityPage, CommunityRide, Question

REQUEST = "/api/governance/ride/request"


class Communities:
    """Asking again is answered with the same question, and confirming again with the same ride."""

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def at(self, *, lat: float, lng: float) -> list[Community]:
        """Those that a place is in, the smallest first."""
        query = {"lat": lat, "lng": lng}
        return (await self._http.ask("GET", "/v1/communities/at", CommunityPage, query=query)).communities

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
        """A ride with the community's own drivers; or, with none there, whether others will do."""
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
        answer = await self._ask(body, key)
        return answer.question() or answer.found()

    async def confirm(self, token: str, *, key: str | None = None) -> CommunityRide:
        """Others will do: the one ride of this question, however often it is confirmed."""
        return (await self._ask({"confirmationToken": token}, key)).found()

    async def read(self, community_id: UUID) -> Community:
        return await self._http.ask("GET", f"/v1/communities/{community_id}", Community)

    async def _ask(self, body: dict[str, Any], key: str | None) -> CommunityAnswer:
        given = {name: value for name, value in body.items() if value is not None}
        return await self._http.ask("POST", REQUEST, CommunityAnswer, body=given, key=key)
