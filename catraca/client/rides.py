"""Rides, for passengers, drivers and operators."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from catraca.client.http import Http, without_none
from catraca.client.models import Accepted, Charge, Offer, Offers, PixCode, Quote, Ride, RidePage


class Rides:
    """Every change happens once, however often it is sent.

    With a `key` of its own, a caller can repeat a call after a crash.
    """

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def quote(
        self, *, pickup_lat: float, pickup_lon: float, dropoff_lat: float, dropoff_lon: float
    ) -> Quote:
        """Estimate distance, duration and fare."""
        body = {
            "pickup_lat": pickup_lat,
            "pickup_lon": pickup_lon,
            "dropoff_lat": dropoff_lat,
            "dropoff_lon": dropoff_lon,
        }
        return await self._http.request("POST", "/v1/quotes", Quote, body=body)

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
        """Request a ride; the search for a driver starts."""
        body = {
            "pickup_lat": pickup_lat,
            "pickup_lon": pickup_lon,
            "dropoff_lat": dropoff_lat,
            "dropoff_lon": dropoff_lon,
            "pickup_address": pickup_address,
            "dropoff_address": dropoff_address,
        }
        return await self._http.request("POST", "/v1/rides", Ride, body=without_none(body), key=key)

    async def read(self, ride_id: UUID) -> Ride:
        return await self._http.request("GET", f"/v1/rides/{ride_id}", Ride)

    async def page(
        self, *, statuses: Sequence[str] = (), before: UUID | None = None, limit: int = 50
    ) -> RidePage:
        """The caller's rides (an operator's: all), newest first; `before` is the last page's `next`."""
        query = without_none({"status": list(statuses), "before": before, "limit": limit})
        return await self._http.request("GET", "/v1/rides", RidePage, query=query)

    async def offer(
        self, ride_id: UUID, driver_ids: Sequence[UUID], *, ttl_seconds: float | None = None
    ) -> Offers:
        """As an operator: offer the ride to these drivers."""
        body = without_none({"driver_ids": driver_ids, "ttl_seconds": ttl_seconds})
        return await self._http.request("POST", f"/v1/rides/{ride_id}/offers", Offers, body=body)

    async def accept(self, ride_id: UUID, *, key: str | None = None) -> Accepted:
        """Accept the ride: exactly one driver gets it, the others are `Refused`."""
        return await self._http.request("POST", f"/v1/rides/{ride_id}/accept", Accepted, body={}, key=key)

    async def reject(self, ride_id: UUID, *, reason: str | None = None) -> Offer:
        """Reject the offer."""
        body = without_none({"reason": reason})
        return await self._http.request("PATCH", f"/v1/rides/{ride_id}/reject", Offer, body=body)

    async def arrive(self, ride_id: UUID) -> Ride:
        """As its driver: arrived at the pick-up."""
        return await self._http.request("POST", f"/v1/rides/{ride_id}/arrive", Ride)

    async def start(self, ride_id: UUID) -> Ride:
        """As its driver: the trip starts."""
        return await self._http.request("POST", f"/v1/rides/{ride_id}/start", Ride)

    async def complete(self, ride_id: UUID, *, distance_meters: int | None = None) -> Ride:
        """As its driver: the trip ends. A ride without a destination needs `distance_meters`."""
        body = without_none({"distance_meters": distance_meters})
        return await self._http.request("POST", f"/v1/rides/{ride_id}/complete", Ride, body=body)

    async def charge(self, ride_id: UUID) -> Charge:
        """The charge of a ride, from a moment after its completion."""
        return await self._http.request("GET", f"/v1/rides/{ride_id}/charge", Charge)

    async def pix_code(self, ride_id: UUID) -> PixCode:
        """A Pix code for what is still due of a ride."""
        return await self._http.request("GET", f"/v1/rides/{ride_id}/charge/pix", PixCode)

    async def confirm_cash(self, ride_id: UUID) -> Charge:
        """As its driver: the passenger has paid the fare in cash."""
        return await self._http.request("POST", f"/v1/rides/{ride_id}/charge/cash", Charge)

    async def cancel(self, ride_id: UUID, reason: str, *, note: str | None = None) -> Ride:
        """Cancel the ride; if its driver cancels, the search for another driver starts."""
        body = without_none({"reason": reason, "note": note})
        return await self._http.request("POST", f"/v1/rides/{ride_id}/cancel", Ride, body=body)

    async def end(self, ride_id: UUID, outcome: str, reason: str, *, fare_cents: int | None = None) -> Ride:
        """As an operator: end a ride that its driver does not end. `outcome`: `completed` or `canceled`."""
        body = without_none({"outcome": outcome, "reason": reason, "fare_cents": fare_cents})
        return await self._http.request("POST", f"/v1/rides/{ride_id}/end", Ride, body=body)

    async def active(self, driver_id: UUID) -> Ride | None:
        """The ride that a driver has accepted and not finished."""
        return await self._http.get_or_none(f"/v1/drivers/{driver_id}/active-ride", Ride)
