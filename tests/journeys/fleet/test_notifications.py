"""Notifications on passengers' and drivers' devices, word for word: the RFC's scenarios, and lost rides.

Real processes; passengers are connected to one API and drivers to another. Each scenario runs in both
languages at a time, in two places of the world.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from catraca.domains.notifications.model import Notification
from catraca.platform.texts import Language
from tests.conftest import bearer
from tests.domains.notifications.devices import Device, Frame, opened
from tests.journeys.fleet.people import STEP, Journey, Quarter
from tests.journeys.fleet.processes import MatchingFleet

pytestmark = pytest.mark.xdist_group("rides")

# In hundred metres from the pickup; the nearest driver gets the first offer.
NEAR, FAR = 12, 14
WORDS: dict[Language, dict[str, str]] = {
    "pt-BR": {
        "near": "Nova corrida disponível! R$ 25,50 - 1,2 km de distância",
        "far": "Nova corrida disponível! R$ 25,50 - 1,4 km de distância",
        "offered": "Nova corrida disponível! R$ 25,50",
        "accepted": "Um motorista aceitou sua corrida!",
        "taken": "Você aceitou a corrida! Vá ao ponto de partida.",
        "matched": "Motorista encontrado! João está a caminho.",
        "arriving": "Seu motorista está no ponto de partida.",
        "started": "Sua corrida começou. Boa viagem!",
        "completed": "Corrida concluída. Valor: R$ 25,50.",
        "lost": "Esta corrida foi aceita por outro motorista.",
        "nobody_title": "Nenhum motorista disponível",
        "nobody": "Não encontramos motoristas na sua região no momento."
        " Tente novamente em alguns minutos ou aumente o raio de busca.",
    },
    "en": {
        "near": "New ride available! R$25.50 - 1.2 km away",
        "far": "New ride available! R$25.50 - 1.4 km away",
        "offered": "New ride available! R$25.50",
        "accepted": "A driver has accepted your ride!",
        "taken": "You have accepted the ride! Go to the pickup point.",
        "matched": "Driver found! João is on the way.",
        "arriving": "Your driver is at the pickup point.",
        "started": "Your ride has begun. Have a good trip!",
        "completed": "Ride completed. Fare: R$25.50.",
        "lost": "This ride was accepted by another driver.",
        "nobody_title": "No driver available",
        "nobody": "We found no drivers in your area at the moment."
        " Try again in a few minutes, or search farther out.",
    },
}


@dataclass
class Party:
    """A user with a device, and the frames that the device received."""

    fleet: MatchingFleet
    id: UUID
    device: Device
    received: list[Frame] = field(default_factory=list)

    async def receives(self, *messages: tuple[str, str]) -> list[Frame]:
        """Assert that the next notifications have these types and texts; returns them."""
        found = await self.device.notices(len(messages))
        assert [(one["type"], one["data"]["message"]) for one in found] == list(messages)
        self.received += found
        return found

    async def received_all(self) -> None:
        """Assert that the device received exactly the user's rows, each once and in order."""
        async with self.fleet.office.database.connection() as db:
            rows = await db.fetch(
                "SELECT user_id, seq, type, data::text AS data, created_at, read_at FROM notifications"
                " WHERE user_id = $1 ORDER BY seq",
                self.id,
            )
        assert [row["seq"] for row in rows] == list(range(1, len(self.received) + 1))
        frames = [Notification(**row).frame().decode() for row in rows]
        received = [one for one in self.device.received if one.startswith('{"seq"')]
        differ = [
            number for number, (one, row) in enumerate(zip(received, frames, strict=True)) if one != row
        ]
        # Drivers' rows lose the pickup at the ride's end.
        assert all(
            msgspec.json.decode(frames[number]) == _without_pickup(received[number]) for number in differ
        )
        assert await self.device.is_silent()


def _without_pickup(frame: str) -> Any:
    decoded = msgspec.json.decode(frame)
    assert "pickup_location" in decoded["data"]
    return decoded | {"data": decoded["data"] | {"passenger_id": None, "pickup_location": None}}


@dataclass
class Scene:
    """The users of one ride in one place, all with the same language."""

    fleet: MatchingFleet
    language: Language
    ending: AsyncExitStack
    quarter: Quarter
    parties: list[Party] = field(default_factory=list)

    def words(self, key: str) -> str:
        return WORDS[self.language][key]

    async def driver(self, steps: float | None = None, name: str = "João da Silva") -> Party:
        """A driver; online at this distance, if it is given."""
        party = await self._party("driver", self.fleet.hasty, name)
        if steps is not None:
            place = {"lat": self.quarter.lat + steps * STEP, "lng": self.quarter.lng}
            answer = await party.device.ask("location.status", {"online": True, "position": place})
            assert answer["type"] == "reply", answer
        return party

    async def passenger(self) -> Party:
        return await self._party("passenger", self.fleet.patient, "Maria Souza")

    async def request(self, passenger: Party, *, hastily: bool = False) -> Journey:
        lat, lng = self.quarter.lat, self.quarter.lng
        way = {"pickup_lat": lat, "pickup_lon": lng, "dropoff_lat": lat - 5 * STEP, "dropoff_lon": lng}
        answer = await (self.fleet.hasty if hastily else self.fleet.patient).post(
            "/v1/rides", json=way, headers=bearer("passenger", passenger.id)
        )
        assert answer.status_code == 201, answer.text
        return Journey(self.fleet, UUID(answer.json()["ride_id"]), passenger.id)

    async def _party(self, role: str, api: httpx.AsyncClient, name: str) -> Party:
        party_id = uuid4()
        headers = bearer(role, party_id)
        answer = await api.patch("/v1/me", json={"language": self.language, "name": name}, headers=headers)
        assert answer.status_code == 200, answer.text
        url = str(api.base_url).rstrip("/")
        party = Party(self.fleet, party_id, await self.ending.enter_async_context(opened(url, headers)))
        self.parties.append(party)
        return party

    async def is_offered(self, party: Party, key: str) -> Frame:
        (offer,) = await party.receives(("matching.candidate_found", self.words(key)))
        return offer

    async def is_accepted(self, ride: Journey, driver: Party, passenger: Party) -> None:
        await ride.accept(driver.id)
        accepted, matched = await passenger.receives(
            ("ride.accepted", self.words("accepted")), ("ride.matched", self.words("matched"))
        )
        (taken,) = await driver.receives(("ride.accepted", self.words("taken")))
        eta_seconds = accepted["data"]["eta_seconds"]
        assert accepted["data"] == {
            "ride_id": str(ride.ride_id),
            "message": self.words("accepted"),
            "driver_id": str(driver.id),
            "eta_seconds": eta_seconds,
        }
        assert eta_seconds > 0
        assert matched["data"]["eta"] == f"{max(1, round(eta_seconds / 60))} min"
        assert matched["data"]["driver"]["name"] == "João da Silva"
        assert taken["data"] == {
            "ride_id": str(ride.ride_id),
            "message": self.words("taken"),
            "passenger_id": str(passenger.id),
            "pickup_location": {"lat": self.quarter.lat, "lon": self.quarter.lng},
            "eta_seconds": eta_seconds,
        }


@asynccontextmanager
async def scene(fleet: MatchingFleet, language: Language) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as ending:
        found = Scene(fleet, language, ending, Quarter(fleet))
        yield found
        await fleet.until(fleet.is_quiet)
        for party in found.parties:
            await party.received_all()


async def in_both_languages(fleet: MatchingFleet, play: Callable[[Scene], Awaitable[None]]) -> None:
    async def perform(language: Language) -> None:
        async with scene(fleet, language) as stage:
            await play(stage)

    await asyncio.gather(perform("pt-BR"), perform("en"))


async def test_scenario_1_the_driver_accepts_and_drives(here: MatchingFleet) -> None:
    async def play(stage: Scene) -> None:
        passenger, driver = await stage.passenger(), await stage.driver(NEAR)
        ride = await stage.request(passenger)
        offer = await stage.is_offered(driver, "near")
        assert offer["data"]["estimated_fare_cents"] == 2550
        await stage.is_accepted(ride, driver, passenger)
        await ride.drive(driver.id)
        await passenger.receives(
            ("ride.arriving", stage.words("arriving")),
            ("ride.started", stage.words("started")),
            ("ride.completed", stage.words("completed")),
        )
        await driver.receives(("ride.completed", stage.words("completed")))

    await in_both_languages(here, play)


async def test_scenario_2_the_driver_refuses(here: MatchingFleet) -> None:
    async def play(stage: Scene) -> None:
        passenger = await stage.passenger()
        first, second = await stage.driver(NEAR, "Ana"), await stage.driver(FAR)
        ride = await stage.request(passenger)
        await stage.is_offered(first, "near")
        await ride.reject(first.id)
        offer = await stage.is_offered(second, "far")
        assert offer["data"]["attempt"] == 2
        await stage.is_accepted(ride, second, passenger)

    await in_both_languages(here, play)


async def test_scenario_3_the_driver_does_not_answer(here: MatchingFleet) -> None:
    async def play(stage: Scene) -> None:
        passenger = await stage.passenger()
        first, second = await stage.driver(NEAR, "Ana"), await stage.driver(FAR)
        ride = await stage.request(passenger)
        await stage.is_offered(first, "near")
        await stage.is_offered(second, "far")
        await stage.is_accepted(ride, second, passenger)

    await in_both_languages(here, play)


async def test_scenario_4_no_driver_in_time(here: MatchingFleet) -> None:
    async def play(stage: Scene) -> None:
        passenger, driver = await stage.passenger(), await stage.driver(NEAR)
        ride = await stage.request(passenger, hastily=True)
        await stage.is_offered(driver, "near")
        await ride.reject(driver.id)
        (nobody,) = await passenger.receives(("matching.no_drivers_available", stage.words("nobody")))
        assert nobody["data"] == {
            "ride_id": str(ride.ride_id),
            "message": stage.words("nobody"),
            "title": stage.words("nobody_title"),
            "actions": ["retry_same_location", "increase_radius", "schedule_later"],
        }

    await in_both_languages(here, play)


async def test_losing_drivers_are_notified_that_the_ride_is_taken(here: MatchingFleet) -> None:
    async def play(stage: Scene) -> None:
        passenger = await stage.passenger()
        drivers = [await stage.driver() for _ in range(4)]
        ride = await stage.request(passenger)
        body = {"driver_ids": [str(one.id) for one in drivers], "ttl_seconds": 60}
        path = f"/v1/rides/{ride.ride_id}/offers"
        answer = await here.patient.post(path, json=body, headers=bearer("operator"))
        assert answer.status_code == 201, answer.text
        offers = [await stage.is_offered(one, "offered") for one in drivers]
        await ride.accept(drivers[0].id)
        await passenger.receives(
            ("ride.accepted", stage.words("accepted")), ("ride.matched", stage.words("matched"))
        )
        await drivers[0].receives(("ride.accepted", stage.words("taken")))
        for loser, offer in zip(drivers[1:], offers[1:], strict=True):
            (lost,) = await loser.receives(("offer.canceled", stage.words("lost")))
            assert lost["data"] == {
                "ride_id": str(ride.ride_id),
                "message": stage.words("lost"),
                "offer_id": offer["data"]["offer_id"],
                "reason": "accepted_by_another_driver",
            }

    await in_both_languages(here, play)


async def test_offer_received_on_two_devices_is_published_once(here: MatchingFleet) -> None:
    async with scene(here, "pt-BR") as stage:
        passenger, driver = await stage.passenger(), await stage.driver(NEAR)
        async with opened(str(here.patient.base_url).rstrip("/"), bearer("driver", driver.id)) as tablet:
            ride = await stage.request(passenger)
            offer = await stage.is_offered(driver, "near")
            assert (await tablet.notices(1)) == [offer]
            replies: list[Any] = await asyncio.gather(
                *(one.ask("ack", {"seq": 1}) for one in (driver.device, tablet))
            )
        assert [one["data"] for one in replies] == [{"seq": 1}] * 2
        sent = await ride.until_published("matching.offer_sent")
        assert (sent["driver_id"], sent["offer_id"]) == (str(driver.id), offer["data"]["offer_id"])
        await stage.is_accepted(ride, driver, passenger)
        assert [key for key, _ in await ride.events()].count("matching.offer_sent") == 1
