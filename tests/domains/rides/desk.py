"""Passengers, drivers and an operator at one API, for most tests of rides."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Union
from uuid import UUID, uuid4

import httpx
import msgspec

from catraca.domains.rides.search import jobs
from catraca.domains.rides.search.service import SEARCH_GRACE
from catraca.events import EVENTS
from catraca.platform.database import Database
from catraca.platform.event import Event
from tests.conftest import bearer

SE = {"pickup_lat": -12.9777, "pickup_lon": -38.5016}
BARRA = {"dropoff_lat": -13.0102, "dropoff_lon": -38.5326}
WAY = SE | BARRA
# The next verb in each status, and its body.
NEXT: dict[str, tuple[str, Any]] = {
    "ACCEPTED": ("arrive", None),
    "ARRIVING": ("start", None),
    "STARTED": ("complete", {}),
}
EVENTS_SQL = (
    "SELECT routing_key, aggregate_id, seq, headers, body FROM outbox WHERE queue IS NULL UNION ALL"
    " SELECT routing_key, aggregate_id, seq, headers, body FROM outbox_sent WHERE queue IS NULL"
)
read_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[EVENTS])  # noqa: UP007


def moment(text: str) -> datetime:
    """Parse a time as the API writes it."""
    return datetime.fromisoformat(text)


@dataclass
class Desk:
    """Sends requests over HTTP with the token of any user."""

    api: httpx.AsyncClient
    database: Database

    @property
    def operator(self) -> dict[str, str]:
        return bearer("operator")

    async def new_driver(self) -> UUID:
        return (await self.new_drivers(1))[0]

    async def new_drivers(self, count: int) -> list[UUID]:
        """Insert approved drivers in one transaction, which is faster than a first request of each."""
        ids = [uuid4() for _ in range(count)]
        async with self.database.transaction() as db:
            await db.execute(
                "INSERT INTO users (id, roles) SELECT id, '{driver}' FROM unnest($1::uuid[]) AS id", ids
            )
            await db.execute(
                "INSERT INTO drivers (user_id, approval) SELECT id, 'approved' FROM unnest($1::uuid[]) AS id",
                ids,
            )
        return ids

    async def request(
        self, passenger_id: UUID | None = None, *, way: dict[str, float] = WAY, **fields: str
    ) -> UUID:
        """Request a ride; return its id."""
        answer = await self.api.post(
            "/v1/rides", json=way | fields, headers=bearer("passenger", passenger_id)
        )
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["ride_id"])

    async def offer(self, ride_id: UUID, *driver_ids: UUID, ttl_seconds: float = 60) -> Any:
        answer = await self.try_offer(ride_id, *driver_ids, ttl_seconds=ttl_seconds)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def try_offer(self, ride_id: UUID, *driver_ids: UUID, ttl_seconds: float = 60) -> httpx.Response:
        return await self.api.post(
            f"/v1/rides/{ride_id}/offers",
            json={"driver_ids": [str(one) for one in driver_ids], "ttl_seconds": ttl_seconds},
            headers=self.operator,
        )

    async def offered(
        self, count: int = 1, *, passenger_id: UUID | None = None, ttl_seconds: float = 60
    ) -> tuple[UUID, list[UUID]]:
        """Request a ride and offer it to `count` new drivers."""
        ride_id, drivers = await self.request(passenger_id), await self.new_drivers(count)
        made = await self.offer(ride_id, *drivers, ttl_seconds=ttl_seconds)
        assert len(made["offers"]) == count
        return ride_id, drivers

    async def accepted(self, passenger_id: UUID | None = None) -> tuple[UUID, UUID]:
        """Return a new accepted ride and its driver."""
        ride_id, (driver_id,) = await self.offered(passenger_id=passenger_id)
        assert (await self.accept(ride_id, driver_id)).status_code == 200
        return ride_id, driver_id

    async def accept(
        self, ride_id: UUID, driver_id: UUID, key: str | None = None, **headers: str
    ) -> httpx.Response:
        body = {"driver_id": str(driver_id)} | ({"idempotency_key": key} if key else {})
        return await self.api.post(
            f"/rides/{ride_id}/accept", json=body, headers=bearer("driver", driver_id) | headers
        )

    async def accept_all(self, ride_id: UUID, drivers: Sequence[UUID]) -> list[httpx.Response]:
        return await asyncio.gather(*(self.accept(ride_id, driver_id) for driver_id in drivers))

    async def reject(self, ride_id: UUID, driver_id: UUID, reason: str | None = None) -> httpx.Response:
        return await self.api.patch(
            f"/rides/{ride_id}/reject",
            json={"driver_id": str(driver_id), "reason": reason},
            headers=bearer("driver", driver_id),
        )

    async def cancel(self, ride_id: UUID, headers: dict[str, str], reason: str = "other") -> httpx.Response:
        return await self.act(ride_id, "cancel", headers=headers, json={"reason": reason})

    async def give_up(self, ride_id: UUID, driver_id: UUID) -> None:
        answer = await self.cancel(ride_id, bearer("driver", driver_id), "vehicle_problem")
        assert (answer.status_code, answer.json()["status"]) == (200, "SEARCHING"), answer.text

    async def act(
        self, ride_id: UUID, verb: str, *, headers: dict[str, str], json: Any = None
    ) -> httpx.Response:
        return await self.api.post(f"/v1/rides/{ride_id}/{verb}", json=json, headers=headers)

    async def drive_to(self, status: str, ride_id: UUID, driver_id: UUID) -> None:
        """Move an accepted ride to this status."""
        while (stands := await self.status(ride_id)) in NEXT and stands != status:
            verb, body = NEXT[stands]
            answer = await self.act(ride_id, verb, headers=bearer("driver", driver_id), json=body)
            assert answer.status_code == 200, answer.text
        assert await self.status(ride_id) == status

    async def start_earlier(self, ride_id: UUID, by: timedelta) -> None:
        """Set the start of the ride back."""
        await self.sql("UPDATE rides SET started_at = started_at - $2::interval WHERE id = $1", ride_id, by)

    async def flags(self, ride_id: UUID, **query: str) -> list[Any]:
        answer = await self.api.get(
            "/v1/ride-flags", params={"ride_id": str(ride_id)} | query, headers=self.operator
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["flags"]

    async def settle(self, ride_id: UUID) -> None:
        """Run the ride's timer now."""
        await self.database.run(lambda db: jobs.expire_ride(db, ride_id))

    async def let_lapse(self, ride_id: UUID, *driver_ids: UUID) -> None:
        """Set the end of these drivers' live offers to now (of all drivers if none is given)."""
        await self.sql(
            "UPDATE ride_offers SET expires_at = clock_timestamp() WHERE ride_id = $1 AND response IS NULL"
            " AND (cardinality($2::uuid[]) = 0 OR driver_id = ANY ($2))",
            ride_id,
            list(driver_ids),
        )

    async def end_time_of_search(self, ride_id: UUID) -> None:
        """Set the ride's deadline so far back that its timer ends the search."""
        await self.sql(
            "UPDATE rides SET deadline_at = clock_timestamp() - $2::interval WHERE id = $1",
            ride_id,
            SEARCH_GRACE,
        )

    async def read(self, ride_id: UUID, headers: dict[str, str] | None = None) -> Any:
        return (await self.api.get(f"/v1/rides/{ride_id}", headers=headers or self.operator)).json()

    async def status(self, ride_id: UUID) -> str:
        return (await self.read(ride_id))["status"]

    async def timeline(self, ride_id: UUID) -> Any:
        answer = await self.api.get(f"/v1/rides/{ride_id}/timeline", headers=self.operator)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def attempts(self, ride_id: UUID) -> list[Any]:
        answer = await self.api.get(
            f"/v1/rides/{ride_id}/attempts", params={"limit": 1000}, headers=self.operator
        )
        return answer.json()["attempts"]

    async def event_keys(self, *aggregate_ids: UUID) -> list[str]:
        """The routing keys of these aggregates' events, sent or not."""
        rows = await self.sql(
            f"SELECT * FROM ({EVENTS_SQL}) AS o WHERE aggregate_id = ANY ($1::uuid[])"
            " ORDER BY aggregate_id, seq",
            list(aggregate_ids),
        )
        return [row["routing_key"] for row in rows]

    async def events(self, ride_id: UUID) -> list[Event]:
        """The events of the ride and its offers, decoded as consumers decode them."""
        rows = await self.sql(
            f"SELECT * FROM ({EVENTS_SQL}) AS o WHERE body->>'ride_id' = $1 ORDER BY aggregate_id, seq",
            str(ride_id),
        )
        return [read_event.decode(row["body"]) for row in rows]

    async def sql(self, query: str, *args: object) -> Sequence[Any]:
        """Run a statement and commit it."""
        async with self.database.connection() as db:
            return await db.fetch(query, *args)
