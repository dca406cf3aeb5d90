"""Passengers and drivers of one ride, their actions over HTTP, and the events of the ride."""

from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec

from tests.conftest import bearer
from tests.journeys.fleet.processes import MatchingFleet

# About a hundred metres to the north.
STEP = 0.0009
# Fields that differ from run to run, or are the same in all events of a ride.
VARIES = {
    *("event_type", "timestamp", "offer_id", "ride_id", "rider_id", "passenger_id", "fare_cents"),
    *("pickup", "pickup_lat", "pickup_lon", "eta_seconds", "pickup_distance_meters"),
    *("deadline_at", "expires_at", "retry_at", "started_at", "matched_at", "timeout_at"),
    *("accepted_at", "rejected_at", "cancelled_at", "arrived_at", "completed_at"),
}
PublishedEvent = tuple[str, dict[str, Any]]
_places = count()


def event(key: str, **fields: Any) -> PublishedEvent:
    """An event of round 1, unless `round` is given; all its fields except `VARIES` and empty ones."""
    expected = msgspec.to_builtins({"round": 1, **fields})
    return key, {name: value for name, value in expected.items() if value not in (None, [])}


@dataclass
class Quarter:
    """A place without other drivers, a hundred kilometres from the next."""

    fleet: MatchingFleet
    lat: float = field(default_factory=lambda: -30.0 + next(_places))
    lng: float = -50.0

    async def drivers(self, *steps: float) -> list[UUID]:
        """Put drivers online, each this many hundred metres from the pickup."""
        return [await self.driver(one) for one in steps]

    async def driver(self, steps: float) -> UUID:
        driver_id = uuid4()
        position = {"lat": self.lat + steps * STEP, "lng": self.lng}
        await self._go(driver_id, {"online": True, "position": position})
        return driver_id

    async def leaves(self, driver_id: UUID) -> None:
        await self._go(driver_id, {"online": False})

    async def _go(self, driver_id: UUID, status: dict[str, Any]) -> None:
        answer = await self.fleet.patient.put(
            f"/v1/location/drivers/{driver_id}/status", json=status, headers=bearer("driver", driver_id)
        )
        assert answer.status_code == 200, answer.text

    async def request(self, *, hastily: bool = False) -> "Journey":
        passenger_id = uuid4()
        answer = await (self.fleet.hasty if hastily else self.fleet.patient).post(
            "/v1/rides",
            json={"pickup_lat": self.lat, "pickup_lon": self.lng},
            headers=bearer("passenger", passenger_id),
        )
        assert answer.status_code == 201, answer.text
        return Journey(self.fleet, UUID(answer.json()["ride_id"]), passenger_id)


@dataclass
class Journey:
    """A ride, with the actions of its passenger and drivers."""

    fleet: MatchingFleet
    ride_id: UUID
    passenger_id: UUID
    _path: str = field(init=False)

    def __post_init__(self) -> None:
        self._path = f"/v1/rides/{self.ride_id}"

    async def timeline(self) -> Any:
        answer = await self.fleet.patient.get(f"{self._path}/timeline", headers=bearer("operator"))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until_asked(self, driver_id: UUID) -> None:
        """Wait until this driver, and no other, has an open offer."""

        async def is_asked() -> bool:
            offers = (await self.timeline())["offers"]
            return [one["driver_id"] for one in offers if one["response"] is None] == [str(driver_id)]

        await self.fleet.until(is_asked)

    async def until_published(self, key: str, times: int = 1) -> Any:
        """Wait for this many events with the key; returns the body of the last one."""

        async def bodies() -> list[Any]:
            found = [body for one, body in await self._published() if one == key]
            return found if len(found) >= times else []

        return (await self.fleet.until(bodies))[-1]

    async def try_to_accept(self, driver_id: UUID) -> httpx.Response:
        body = {"driver_id": str(driver_id)}
        return await self.fleet.patient.post(
            f"{self._path}/accept", json=body, headers=bearer("driver", driver_id)
        )

    async def accept(self, driver_id: UUID) -> None:
        answer = await self.try_to_accept(driver_id)
        assert answer.status_code == 200, answer.text

    async def reject(self, driver_id: UUID) -> None:
        answer = await self.fleet.patient.patch(
            f"{self._path}/reject", json={"driver_id": str(driver_id)}, headers=bearer("driver", driver_id)
        )
        assert answer.status_code == 200, answer.text

    async def cancel(self, reason: str, *, driver_id: UUID | None = None) -> Any:
        """Cancel as the passenger, or as the given driver."""
        caller = bearer("driver", driver_id) if driver_id else bearer("passenger", self.passenger_id)
        return await self._do("cancel", {"reason": reason}, caller)

    async def drive(self, driver_id: UUID) -> None:
        """Drive the ride to its end."""
        for verb, body in (("arrive", None), ("start", None), ("complete", {"distance_meters": 4200})):
            await self._do(verb, body, bearer("driver", driver_id))

    async def _do(self, verb: str, body: Any, caller: dict[str, str]) -> Any:
        answer = await self.fleet.patient.post(f"{self._path}/{verb}", json=body, headers=caller)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def states(self) -> list[str]:
        return [step["to_status"] for step in (await self.timeline())["steps"]]

    async def events(self) -> list[PublishedEvent]:
        """Wait until nothing is pending; returns all events of the ride and its offers, in order."""
        await self.fleet.until(self.fleet.is_quiet)
        return [
            event(key, **{name: value for name, value in body.items() if name not in VARIES})
            for key, body in await self._published()
        ]

    async def _published(self) -> list[tuple[str, Any]]:
        async with self.fleet.office.database.connection() as db:
            rows = await db.fetch(
                "SELECT id, routing_key, body FROM outbox WHERE body->>'ride_id' = $1 UNION ALL"
                " SELECT id, routing_key, body FROM outbox_sent WHERE body->>'ride_id' = $1 ORDER BY id",
                str(self.ride_id),
            )
        return [(row["routing_key"], msgspec.json.decode(row["body"])) for row in rows]
