"""Passengers and drivers of a town with connected devices; drivers answer offers over them."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from catraca.events import UserCreated
from catraca.platform.database import outbox
from catraca.roles.runner import all_of
from tests.storms.callers import Caller, token_of
from tests.storms.live.device import Device, Notice
from tests.storms.matching.drivers import Driver
from tests.storms.matching.passengers import travel
from tests.storms.matching.town import Town, way_to_go
from tests.storms.rides.data import act, ask_for_ride
from tests.storms.rides.ledger import Try

SECOND_DEVICE_SHARE = 0.2
# Factors of `stay_seconds`: some devices reconnect often, some hardly by themselves.
STAYS = (1, 10)
# Most devices acknowledge every frame, some now and then, some never.
ACK_SHARES = (0.0, 0.6, 1.0, 1.0)


class LiveDriver(Driver):
    """Receives offers on the first of its devices that gets them, and sends its position over a socket."""

    def __init__(self, town: Town, driver_id: UUID, chance: random.Random, devices: Sequence[Device]) -> None:
        super().__init__(town, driver_id, chance)
        self._devices = devices
        self._rung: set[UUID] = set()
        for device in devices:
            device.on_notice = self.receive

    def receive(self, notice: Notice) -> None:
        if notice["type"] != "matching.candidate_found":
            return
        data = notice["data"]
        offer = Try(UUID(data["ride_id"]), self.id, UUID(data["offer_id"]))
        assert offer.offer_id is not None
        if offer.offer_id not in self._rung:
            self._rung.add(offer.offer_id)
            self.offers.put_nowait((offer, datetime.fromisoformat(data["expires_at"])))

    async def _ping(self, caller: Caller) -> None:
        self._spot.wander(self._chance)
        answer = await self._chance.choice(self._devices).ask("location.ping", self._spot.body())
        if answer is None or answer["type"] == "reply":
            return
        problem = answer["data"]
        assert problem["status"] in (409, 503), answer
        if problem["status"] == 409:  # on a break, or set offline as silent
            await self._be(caller, online=True)


@dataclass(frozen=True, slots=True)
class People:
    drivers: Sequence[LiveDriver]
    passengers: Sequence[UUID]
    devices: Sequence[Device]


async def gather_people(
    town: Town, *, drivers: int, passengers: int, stay_seconds: float, chance: random.Random
) -> People:
    """Create passengers and drivers of both languages, each with one or two devices."""
    driver_ids = await town.here.new_drivers(drivers)
    passenger_ids = await _new_passengers(town, passengers)
    async with town.here.database.connection() as db:
        await db.execute(
            "UPDATE users SET name = 'Ana ' || left(id::text, 8),"
            "   language = CASE WHEN left(id::text, 1) < '8' THEN 'en' ELSE 'pt-BR' END"
            " WHERE id = ANY ($1::uuid[])",
            [*driver_ids, *passenger_ids],
        )

    def devices_of(role: str, user_id: UUID) -> list[Device]:
        return [
            Device(
                user_id,
                role,
                town.here.ports,
                random.Random(chance.random()),
                by_ticket=chance.random() < 0.5,
                stay_seconds=stay_seconds * chance.choice(STAYS),
                ack_share=chance.choice(ACK_SHARES),
            )
            for _ in range(2 if chance.random() < SECOND_DEVICE_SHARE else 1)
        ]

    theirs = {user_id: devices_of("passenger", user_id) for user_id in passenger_ids}
    theirs |= {user_id: devices_of("driver", user_id) for user_id in driver_ids}
    return People(
        drivers=[LiveDriver(town, one, random.Random(chance.random()), theirs[one]) for one in driver_ids],
        passengers=passenger_ids,
        devices=[device for devices in theirs.values() for device in devices],
    )


async def _new_passengers(town: Town, count: int) -> list[UUID]:
    ids = [uuid4() for _ in range(count)]
    async with town.here.database.transaction() as db:
        await db.execute(
            "INSERT INTO users (id, roles) SELECT id, '{passenger}' FROM unnest($1::uuid[]) AS id", ids
        )
        await outbox.record(db, *(UserCreated(user_id=one, roles=("passenger",)) for one in ids))
    return ids


async def ride_in_turns(
    town: Town, passengers: Sequence[UUID], *, rides: int, rides_a_second: float, chance: random.Random
) -> None:
    """Request rides at this pace, each for the passenger who was idle longest; ends with the last ride."""
    resting: asyncio.Queue[UUID] = asyncio.Queue()
    for passenger_id in passengers:
        resting.put_nowait(passenger_id)

    async def come(number: int, own_chance: random.Random) -> None:
        await asyncio.sleep(number / rides_a_second)
        passenger_id = await resting.get()
        await travel(town, passenger_id, own_chance)
        resting.put_nowait(passenger_id)

    await all_of(*(come(number, random.Random(chance.random())) for number in range(rides)))


async def call_off(town: Town, passenger_id: UUID, chance: random.Random) -> None:
    """Request a ride and cancel it, after the storm: no later notification would reveal a lost one."""
    token = token_of("passenger", passenger_id)
    async with town.calling() as caller:
        ride_id = await ask_for_ride(caller, passenger_id, way_to_go(chance))
        town.ledger.done["asked for"].add((ride_id, passenger_id))
        answer = await act(caller, ride_id, "cancel", token=token, reason="changed_plans")
        assert answer.status == 200, answer.body
        town.ledger.done["canceled"].add((ride_id, passenger_id))
        town.ledger.ends[ride_id] = ("CANCELED", None)
