"""A simulated driver: drives around, gets offers, and answers by temper."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from catraca.client.client import Client
from catraca.client.demo.places import Spot, advance, random_spot, route
from catraca.client.errors import ClientFailure, Refused
from catraca.client.live import Live
from catraca.client.models import Accepted
from catraca.client.values import Message, Ping

if TYPE_CHECKING:
    from catraca.client.demo.city import City

OFFER, OFFER_CANCELED, RIDE_CANCELED = "matching.candidate_found", "offer.canceled", "ride.cancelled"
ACCURACY_METERS = 8.0
BOARDING_SECONDS = (0.5, 2.0)
ONLINE_SECONDS, OFFLINE_SECONDS = (20.0, 60.0), (3.0, 12.0)
FAILURE_SECONDS = (1.0, 4.0)


@dataclass(frozen=True, slots=True)
class Temper:
    """Percentages of offers that are accepted and rejected; the others are ignored."""

    name: str
    accepts: int
    rejects: int
    think_seconds: tuple[float, float] = (0.3, 2.0)
    loses_connection: bool = False


# The share of each temper is the same for any number of drivers.
TEMPERS = (
    *[Temper("steady", accepts=97, rejects=3)] * 4,
    *[Temper("choosy", accepts=45, rejects=50)] * 2,
    Temper("silent", accepts=40, rejects=10),
    Temper("flaky", accepts=90, rejects=5, loses_connection=True),
    *[Temper("slow", accepts=90, rejects=5, think_seconds=(4.0, 12.0))] * 2,
)


class Driver:
    def __init__(self, city: "City", driver_id: UUID, temper: Temper, chance: random.Random) -> None:
        self.id = driver_id
        self._city = city
        self._temper = temper
        self._chance = chance
        self._spot = random_spot(chance)
        self._way: list[Spot] = []
        self._moved_at = 0.0
        self._seq: int | None = None
        self._live: Live | None = None
        self._offers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._canceled: set[str] = set()
        self._state = ""

    async def work(self) -> None:
        """Work until the city stops; failures are counted, then the next shift starts."""
        token = self._city.token_of(self.id, "driver")
        async with Client(self._city.url, token=token) as catraca:
            while not self._city.stopping.is_set():
                try:
                    await self._shift(catraca)
                except ClientFailure as failure:
                    self._city.tally.note_failure(failure)
                    await self._city.pause(self._chance.uniform(*FAILURE_SECONDS))
            # Passengers cancel rides that have not started; this is for rides without a passenger.
            await asyncio.sleep(self._city.tick_seconds / 2)
            with suppress(ClientFailure):
                await self._finish_old_ride(catraca)
            with suppress(ClientFailure):
                await catraca.location.go_offline(driver_id=self.id)
        self._set_state("")

    async def _shift(self, catraca: Client) -> None:
        await self._finish_old_ride(catraca)
        await catraca.location.go_online(self._ping(), driver_id=self.id)
        self._set_state("free")
        listening = asyncio.create_task(self._listen(catraca))
        try:
            while not self._city.stopping.is_set() and not listening.done():
                if self._offers.empty():
                    await self._roam()
                else:
                    await self._consider(catraca, self._offers.get_nowait())
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if not listening.cancelled():
            listening.result()

    async def _finish_old_ride(self, catraca: Client) -> None:
        """End a ride that an earlier city or a failure left open."""
        ride = await catraca.rides.active(self.id)
        if ride is not None and ride.status == "STARTED":
            await self._complete(catraca, ride.ride_id)
        elif ride is not None:
            await catraca.rides.cancel(ride.ride_id, "vehicle_problem")

    async def _listen(self, catraca: Client) -> None:
        """Keep a socket; some tempers lose it now and then and resume later."""
        while True:
            async with catraca.live(since=self._seq, acknowledge=True) as live:
                self._live = live
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._connected_seconds()):
                            async for message in live:
                                self._receive(message)
                finally:
                    self._live, self._seq = None, live.seq
            self._city.tally.lost_connections += 1
            await asyncio.sleep(self._chance.uniform(*OFFLINE_SECONDS))

    def _connected_seconds(self) -> float | None:
        return self._chance.uniform(*ONLINE_SECONDS) if self._temper.loses_connection else None

    def _receive(self, message: Message) -> None:
        self._city.tally.messages[message.type] += 1
        if message.type == OFFER:
            self._offers.put_nowait(message.data)
        elif message.type in (OFFER_CANCELED, RIDE_CANCELED):
            self._canceled.add(message.data["ride_id"])

    async def _consider(self, catraca: Client, offer: dict[str, Any]) -> None:
        tally, ride_id = self._city.tally, UUID(offer["ride_id"])
        self._canceled.discard(str(ride_id))  # it may have been offered before
        self._set_state("asked")
        tally.offers["received"] += 1
        await self._city.pause(self._chance.uniform(*self._temper.think_seconds))
        roll = self._chance.uniform(0, 100)
        try:
            if roll < self._temper.accepts:
                accepted = await catraca.rides.accept(ride_id)
                tally.offers["accepted"] += 1
                await self._drive(catraca, accepted)
            elif roll < self._temper.accepts + self._temper.rejects:
                await catraca.rides.reject(ride_id, reason=self._chance.choice(["too_far", "busy", "other"]))
                tally.offers["rejected"] += 1
            else:
                tally.offers["ignored"] += 1
        except Refused as refusal:  # too late, or the ride is canceled
            tally.note_failure(refusal)
        self._way = []
        self._set_state("free")

    async def _drive(self, catraca: Client, ride: Accepted) -> None:
        """Drive to the passenger, then to the destination. A stopping city ends only started trips."""
        if ride.pickup_lat is None or ride.pickup_lon is None:  # a repeat, after the ride's end
            return
        self._set_state("fetching")
        if not await self._go_to(Spot(ride.pickup_lat, ride.pickup_lon), ride.ride_id):
            return
        await catraca.rides.arrive(ride.ride_id)
        await self._city.pause(self._chance.uniform(*BOARDING_SECONDS))
        if self._is_over(ride.ride_id):
            return
        await catraca.rides.start(ride.ride_id)
        self._set_state("driving")
        if ride.dropoff_lat is not None and ride.dropoff_lon is not None:
            await self._go_to(Spot(ride.dropoff_lat, ride.dropoff_lon), ride.ride_id)
        await self._complete(catraca, ride.ride_id)

    async def _complete(self, catraca: Client, ride_id: UUID) -> None:
        await catraca.rides.complete(ride_id)
        await catraca.rides.confirm_cash(ride_id)
        self._city.tally.paid += 1

    def _is_over(self, ride_id: UUID) -> bool:
        return str(ride_id) in self._canceled or self._city.stopping.is_set()

    async def _go_to(self, target: Spot, ride_id: UUID) -> bool:
        """True on arrival; False if the ride or the city ended first."""
        self._way = route(self._spot, target)
        while self._way:
            await self._move()
            if self._is_over(ride_id):
                return False
        return True

    async def _roam(self) -> None:
        if not self._way:
            self._way = route(self._spot, random_spot(self._chance))
        await self._move()

    async def _move(self) -> None:
        """Move one step and send the position over the socket, if it is connected."""
        loop = asyncio.get_running_loop()
        began = max(self._moved_at, loop.time() - 2 * self._city.tick_seconds)
        await self._city.pause(self._city.tick_seconds)
        self._moved_at = loop.time()
        meters = self._city.speed_mps * (self._moved_at - began)
        self._spot, self._way = advance(self._spot, self._way, meters)
        live = self._live
        if live is None or not live.is_connected or self._city.stopping.is_set():
            return
        try:
            await live.ping(self._ping())
        except Refused as refusal:
            self._city.tally.note_failure(refusal)
            if refusal.code == "driver_offline":  # too long without a ping
                await live.go_online(self._ping())

    def _ping(self) -> Ping:
        heading = self._spot.heading_to(self._way[0]) if self._way else None
        return Ping(
            lat=round(self._spot.lat, 6),
            lng=round(self._spot.lng, 6),
            accuracy_meters=ACCURACY_METERS,
            speed=self._city.speed_mps if self._way else 0.0,
            heading=heading,
        )

    def _set_state(self, state: str) -> None:
        """Update the counts of drivers by state; an empty state is not counted."""
        drivers = self._city.tally.drivers
        if self._state:
            drivers[self._state] -= 1
        self._state = state
        if state:
            drivers[state] += 1
