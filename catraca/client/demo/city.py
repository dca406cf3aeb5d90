"""A city that moves: drivers and passengers who know Catraca only by its public API and sockets."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from catraca.client.demo.clinic import RIDES_A_VISIT, Patients
from catraca.client.demo.driver import TEMPERS, Driver
from catraca.client.demo.passenger import Passenger
from catraca.client.demo.tally import Tally

MOST_DRIVERS = 500
MOST_RIDES_PER_MINUTE = 600
# One open ride a passenger: with nobody left to ask for one, the next request waits.
MOST_PASSENGERS = 2000
CITY_SPEED_MPS = 9.0
# So that an hour may be watched in ten minutes; from 8 times on, servers take it for a leap by default.
SPEED_UP = 6.0
TICK_SECONDS = 2.0
ARRIVAL_SECONDS = 3.0
CLOSING_SECONDS = 8.0

Sign = Callable[[UUID, str], str]


class City:
    """Made once, run once. Everybody chooses by chances of their own, which come from `seed` alone."""

    def __init__(
        self,
        url: str,
        sign: Sign,
        *,
        drivers: int,
        rides_per_minute: float,
        seed: int = 1,
        known_drivers: Sequence[UUID] = (),
        known_passengers: Sequence[UUID] = (),
        speed_up: float = SPEED_UP,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """`sign` answers a token for an id and a role. Known people come first, the others are made up."""
        if not 1 <= drivers <= MOST_DRIVERS or not 0 < rides_per_minute <= MOST_RIDES_PER_MINUTE:
            raise ValueError(f"1 to {MOST_DRIVERS} drivers, up to {MOST_RIDES_PER_MINUTE} rides a minute")
        self.url = url
        self.tally = Tally()
        self.stopping = asyncio.Event()
        self.speed_mps = CITY_SPEED_MPS * speed_up
        self.tick_seconds = tick_seconds
        self._sign = sign
        self._seed = seed
        self._rides_per_minute = rides_per_minute
        self._drivers = self._make_drivers(drivers, known_drivers)
        self._known_passengers = known_passengers
        self._everybody: list[Passenger] = []
        self._idle: list[Passenger] = []

    async def run(self, seconds: float | None = None) -> Tally:
        """Until `stopping` is set or the seconds are over; then everybody finishes and goes home."""
        passengers: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as tasks:
            drivers = [tasks.create_task(self._work(driver)) for driver in self._drivers]
            asking = tasks.create_task(self._ask_for_rides(tasks, passengers))
            visiting = tasks.create_task(self._visit_clinics())
            await self._until_stopped(seconds)
            asking.cancel()
            everybody = {*drivers, *passengers, visiting}
            _, late = await asyncio.wait(everybody, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
        self.tally.left_open = sum(passenger.is_travelling for passenger in self._everybody)
        return self.tally

    def token_of(self, person_id: UUID, role: str) -> Callable[[], str]:
        """For a client, which asks again when one has run out."""
        return lambda: self._sign(person_id, role)

    async def pause(self, seconds: float) -> None:
        """A while, unless the city ends before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something to its end, or to the city's."""
        doing = asyncio.create_task(work)
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            doing.cancel()
            await asyncio.wait([doing, stopping])
        if not doing.cancelled():
            doing.result()

    async def _until_stopped(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        self.stopping.set()

    async def _work(self, driver: Driver) -> None:
        # Not all in the same moment: no city begins its day like that.
        await self.pause(self._chance_of(f"arrival of {driver.id}").uniform(0, ARRIVAL_SECONDS))
        await driver.work()

    async def _ask_for_rides(self, tasks: asyncio.TaskGroup, passengers: set[asyncio.Task[None]]) -> None:
        chance = self._chance_of("requests")
        await self.pause(ARRIVAL_SECONDS / 2)
        while not self.stopping.is_set():
            passenger = self._next_passenger(chance)
            if passenger is not None:
                task = tasks.create_task(self._travel(passenger))
                passengers.add(task)
                task.add_done_callback(passengers.discard)
            await self.pause(chance.expovariate(self._rides_per_minute / 60))

    async def _visit_clinics(self) -> None:
        chance = self._chance_of("visits")
        patients = Patients(self, chance)
        while not self.stopping.is_set():
            await self.pause(chance.expovariate(self._rides_per_minute / 60 / RIDES_A_VISIT))
            if not self.stopping.is_set():
                known = list(self._known_passengers)
                await patients.visit(*(chance.choice(known) if known else some_id(chance) for _ in range(2)))

    async def _travel(self, passenger: Passenger) -> None:
        await passenger.travel()
        self._idle.append(passenger)

    def _next_passenger(self, chance: random.Random) -> Passenger | None:
        """Those who are known first, then whoever has nothing to do, then somebody new."""
        number = len(self._everybody)
        if self._idle and number >= len(self._known_passengers):
            return self._idle.pop(chance.randrange(len(self._idle)))
        if number >= MOST_PASSENGERS:
            return None
        own = self._chance_of(f"passenger {number}")
        known = self._known_passengers[number : number + 1]
        passenger = Passenger(self, known[0] if known else some_id(own), own)
        self._everybody.append(passenger)
        return passenger

    def _make_drivers(self, count: int, known: Sequence[UUID]) -> list[Driver]:
        tempers = [TEMPERS[number % len(TEMPERS)] for number in range(count)]
        self._chance_of("tempers").shuffle(tempers)
        drivers: list[Driver] = []
        for number, temper in enumerate(tempers):
            own = self._chance_of(f"driver {number}")
            driver_id = known[number] if number < len(known) else some_id(own)
            drivers.append(Driver(self, driver_id, temper, own))
        return drivers

    def _chance_of(self, what: str) -> random.Random:
        return random.Random(f"{self._seed} {what}")  # noqa: S311 - a play, not a secret


def some_id(chance: random.Random) -> UUID:
    """The same for the same seed: who was made up once is met again."""
    return UUID(int=chance.getrandbits(128), version=4)
