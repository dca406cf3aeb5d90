"""A passenger and a driver who used everything that stores personal data, and a search for their traces."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx

from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.communities.places import post_community
from tests.domains.geofences.village import PATH, request_body, square
from tests.domains.scheduling.clinic import Clinic
from tests.servers import until

WAITING = (
    "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM bus_messages)"
    " + (SELECT count(*) FROM bus_delayed)"
)


@dataclass
class Life:
    """One person. `traces` are the texts that must not stay after an erasure."""

    api: httpx.AsyncClient
    role: str
    mark: str
    id: UUID = field(default_factory=uuid4)

    @property
    def headers(self) -> dict[str, str]:
        return bearer(self.role, self.id)

    @property
    def profile(self) -> dict[str, str]:
        return {
            "name": f"{self.mark} Tracejada",
            "email": f"{self.mark}@traces.example.org",
            "phone": "+55719" + str(self.id.int)[:8],
        }

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request with a key, so that its answer is stored."""
        by = self.headers | {"idempotency-key": uuid4().hex, **headers}
        answer = await self.api.request(method, path, json=body, headers=by)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


@dataclass
class Story:
    api: httpx.AsyncClient
    database: Database
    clinic: Clinic
    passenger: Life
    driver: Life
    # Exact coordinates, with the digits that tell places apart.
    lat: float = -12.977731
    lng: float = -38.501649
    ends: tuple[float, float] = (-13.010217, -38.532683)
    driver_at: tuple[float, float] = (-12.974379, -38.509187)

    async def tell(self) -> None:
        """Use everything that stores personal data."""
        operator = Life(self.api, "operator", "operator")
        await self.passenger.send("PATCH", "/v1/me", self.passenger.profile)
        car = {"vehicle": f"{self.driver.mark} Cronos", "plate": "TRC1D23"}
        await self.driver.send("PATCH", "/v1/me", {**self.driver.profile, "driver": car})
        for person in (self.passenger, self.driver):
            await self._subscribe(person)
            await operator.send("POST", f"/v1/users/{person.id}/password-link")
        await self._drive(operator)
        await self._cancel_a_ride()
        await self._ride_in_a_community()
        await self._book(operator)
        await self.settle()

    async def _subscribe(self, person: Life) -> None:
        async with self.database.transaction() as db:
            await db.execute(
                "INSERT INTO push_subscriptions (id, user_id, endpoint, p256dh, auth, granted_at)"
                " VALUES ($1, $2, $3, $4, $5, clock_timestamp())",
                uuid4(),
                person.id,
                f"https://push.example.org/{person.mark}",
                "B" * 87,
                "a" * 22,
            )

    async def _drive(self, operator: Life) -> None:
        place = {"lat": self.driver_at[0], "lng": self.driver_at[1]}
        path = f"/v1/location/drivers/{self.driver.id}/status"
        await self.driver.send("PUT", path, {"online": True, "position": place})
        ride_id = await self._request()
        await self.passenger.send("POST", f"/v1/rides/{ride_id}/shares")
        offers = {"driver_ids": [str(self.driver.id)], "ttl_seconds": 60}
        await operator.send("POST", f"/v1/rides/{ride_id}/offers", offers)
        agent = {"user-agent": f"{self.driver.mark}/1.0"}
        await self.driver.send(
            "POST", f"/rides/{ride_id}/accept", {"driver_id": str(self.driver.id)}, **agent
        )
        for verb in ("arrive", "start", "complete"):
            await self.driver.send("POST", f"/v1/rides/{ride_id}/{verb}", {} if verb == "complete" else None)
        await self.driver.send("PUT", path, {"online": False})

    async def _request(self) -> str:
        return (
            await self.passenger.send(
                "POST",
                "/v1/rides",
                {
                    "pickup_lat": self.lat,
                    "pickup_lon": self.lng,
                    "dropoff_lat": self.ends[0],
                    "dropoff_lon": self.ends[1],
                    "pickup_address": f"Rua {self.passenger.mark}, 77",
                    "dropoff_address": f"Farol {self.passenger.mark}",
                },
            )
        )["ride_id"]

    async def _cancel_a_ride(self) -> None:
        ride_id = await self._request()
        body = {"reason": "other", "note": f"Nota de {self.passenger.mark}"}
        await self.passenger.send("POST", f"/v1/rides/{ride_id}/cancel", body)

    async def _ride_in_a_community(self) -> None:
        await post_community(self.api, fence=square(round(self.lat, 1), round(self.lng, 1), meters=20_000))
        who = {"passengerId": str(self.passenger.id)}
        body = request_body(self.lat, self.lng) | {
            "origin": f"Origem {self.passenger.mark}",
            "destination": f"Destino {self.passenger.mark}",
        }
        asked = await self.passenger.send("POST", PATH, who | body)
        token = {"confirmationToken": asked["confirmationToken"]}
        confirmed = await self.passenger.send("POST", PATH, who | token)
        body = {"reason": "other", "note": None}
        await self.passenger.send("POST", f"/v1/rides/{confirmed['rideId']}/cancel", body)

    async def _book(self, operator: Life) -> None:
        """Appointments as a client; and the driver is also a worker, with the passenger as client."""
        await self.api.get("/v1/me", headers=bearer("worker", self.driver.id))
        worker = await self.clinic.worker(user_id=str(self.driver.id), name=f"{self.driver.mark} Doutora")
        off = {
            "starts_at": self.clinic.at("15:00"),
            "ends_at": self.clinic.at("16:00"),
            "reason": f"{self.driver.mark} de folga",
        }
        await operator.send("POST", f"/v1/scheduling/workers/{worker}/time-off", off)
        booking = self.clinic.wish(self.clinic.at("09:00"), worker_id=worker)
        booked = await self.passenger.send("POST", "/v1/scheduling/appointments", booking)
        reason = {"reason": f"Motivo de {self.passenger.mark}"}
        path = f"/v1/scheduling/appointments/{booked['appointment_id']}/cancel"
        await self.passenger.send("POST", path, reason)
        booking = self.clinic.wish(self.clinic.at("10:00"), worker_id=worker)
        await self.passenger.send("POST", "/v1/scheduling/appointments", booking)

    async def settle(self) -> None:
        """Wait until all events are handled."""

        async def is_done() -> bool:
            async with self.database.connection() as db:
                return await db.fetchval(WAITING) == 0

        await until(is_done, seconds=20)

    def passenger_places(self) -> list[str]:
        return [_text(number) for number in (self.lat, self.lng, *self.ends)]

    def driver_places(self) -> list[str]:
        return [_text(number) for number in self.driver_at]


def _text(coordinate: float) -> str:
    """To the fifth digit, about a metre."""
    return f"{coordinate:.6f}"[:-1]


async def rows_with(database: Database, traces: list[str]) -> list[str]:
    """The table, column and trace of each row that has a trace in any column, also inside bytes."""
    found: list[str] = []
    async with database.connection() as db:
        columns = await db.fetch(
            "SELECT table_name AS table, column_name AS column FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1, ordinal_position"
        )
        for table, column in columns:
            for trace in traces:
                # Bytes are shown as hexadecimal digits.
                number = await db.fetchval(
                    f'SELECT count(*) FROM "{table}" WHERE "{column}"::text ILIKE ANY ($1::text[])',
                    [f"%{trace}%", f"%{trace.encode().hex()}%"],
                )
                if number:
                    found.append(f"{table}.{column}: {trace} in {number} rows")
    return found
