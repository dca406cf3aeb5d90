"""Rides, as passenger, driver or operator."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import Accepted, Offer, Offers, Quote, Ride, RidePage


class Rides:
    """Every change happens once, however often it had to be sent.

    Whoever may be killed in between gives a `key` and asks with it again.
    """

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def quote(
        self, *, pickup_lat: float, pickup_lon: float, dropoff_lat: float, dropoff_lon: float
    ) -> Quote:
        """What such a ride would cost."""
        body = {
            "pickup_lat": pickup_lat,
            "pickup_lon": pickup_lon,
            "dropoff_lat": dropoff_lat,
            "dropoff_lon": dropoff_lon,
        }
        return await self._http.ask("POST", "/v1/quotes", Quote, body=body)

    async def request(
        self,
        *,
        pickup_lat: float,
        pickup_lon: float,
        dropoff_lat: float | None = None,
        dropoff_lon: float | None = None,
        pickup_address: str | None = None,
        dropoff_address: str | None = None,
        key: str | None = None,
    ) -> Ride:
        """Ask for a ride; a driver is looked for from now on."""
        body = {
            "pickup_lat": pickup_lat,
            "pickup_lon": pickup_lon,
            "dropoff_lat": dropoff_lat,
            "dropoff_lon": dropoff_lon,
            "pickup_address": pickup_address,
            "dropoff_address": dropoff_address,
        }
        return await self._http.ask("POST", "/v1/rides", Ride, body=_given(body), key=key)

    async def read(self, ride_id: UUID) -> Ride:
        return await self._http.ask("GET", f"/v1/rides/{ride_id}", Ride)

    async def page(
        self, *, statuses: Sequence[str] = (), before: UUID | None = None, limit: int = 50
    ) -> RidePage:
        """One's own rides, newest first (an operator's: everybody's); `before` is the last page's `next`."""
        query = _given({"status": list(statuses), "before": before and str(before), "limit": limit})
        return await self._http.ask("GET", "/v1/rides", RidePage, query=query)

    async def offer(
        self, ride_id: UUID, driver_ids: Sequence[UUID], *, ttl_seconds: float | None = None
    ) -> Offers:
        """As an operator, ask these drivers by hand."""
        body = _given({"driver_ids": driver_ids, "ttl_seconds": ttl_seconds})
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/offers", Offers, body=body)

    async def accept(self, ride_id: UUID, *, key: str | None = None) -> Accepted:
        """Take the ride: exactly one driver gets it, the others are `Refused`."""
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/accept", Accepted, body={}, key=key)

    async def reject(self, ride_id: UUID, *, reason: str | None = None) -> Offer:
        """Leave the ride to the next driver."""
        body = _given({"reason": reason})
        return await self._http.ask("PATCH", f"/v1/rides/{ride_id}/reject", Offer, body=body)

    async def arrive(self, ride_id: UUID) -> Ride:
        """As its driver: at the pick-up."""
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/arrive", Ride)

    async def start(self, ride_id: UUID) -> Ride:
        """As its driver: the passenger is in the car."""
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/start", Ride)

    async def complete(self, ride_id: UUID, *, distance_meters: int | None = None) -> Ride:
        """As its driver: done. A ride without a destination needs to know how far it went."""
        body = _given({"distance_meters": distance_meters})
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/complete", Ride, body=body)

    async def cancel(self, ride_id: UUID, reason: str, *, note: str | None = None) -> Ride:
        """End the ride; its driver only gives it up, and another is looked for."""
        body = _given({"reason": reason, "note": note})
        return await self._http.ask("POST", f"/v1/rides/{ride_id}/cancel", Ride, body=body)

    async def active(self, driver_id: UUID) -> Ride | None:
        """What a driver has accepted and not finished."""
        return await self._http.look(f"/v1/drivers/{driver_id}/active-ride", Ride)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what was left out: the server tells that from null."""
    return {name: value for name, value in fields.items() if value is not None}
