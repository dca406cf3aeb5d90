"""A simulated city: drivers and passengers who use only the public API and sockets."""

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
# A passenger has one open ride: if all have one, the next request waits.
MOST_PASSENGERS = 2000
CITY_SPEED_MPS = 9.0
# An hour is shown in ten minutes. From 8 times on, a server rejects the pings as too fast by default.
SPEED_UP = 6.0
TICK_SECONDS = 2.0
ARRIVAL_SECONDS = 3.0
CLOSING_SECONDS = 8.0

Sign = Callable[[UUID, str], str]


class City:
    """Made once, run once. All random choices come from `seed`."""

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
        """`sign` returns a token for an id and a role. Known people come first, then generated ones."""
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
        self._passengers: list[Passenger] = []
        self._idle: list[Passenger] = []

    async def run(self, seconds: float | None = None) -> Tally:
        """Run until `stopping` is set or the time is over; then open rides are finished or canceled."""
        passengers: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as tasks:
            drivers = [tasks.create_task(self._work(driver)) for driver in self._drivers]
            requesting = tasks.create_task(self._request_rides(tasks, passengers))
            visiting = tasks.create_task(self._visit_clinics())
            await self._until_stopped(seconds)
            requesting.cancel()
            working = {*drivers, *passengers, visiting}
            _, late = await asyncio.wait(working, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
        self.tally.left_open = sum(passenger.is_travelling for passenger in self._passengers)
        return self.tally

    def token_of(self, person_id: UUID, role: str) -> Callable[[], str]:
        """A function for `Client`, which calls it again when a token has expired."""
        return lambda: self._sign(person_id, role)

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the city stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` to its end, at most until the city stops."""
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
        # Drivers do not start in the same moment.
        await self.pause(self._chance_of(f"arrival of {driver.id}").uniform(0, ARRIVAL_SECONDS))
        await driver.work()

    async def _request_rides(self, tasks: asyncio.TaskGroup, passengers: set[asyncio.Task[None]]) -> None:
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
                await patients.visit(
                    *(chance.choice(known) if known else random_id(chance) for _ in range(2))
                )

    async def _travel(self, passenger: Passenger) -> None:
        await passenger.travel()
        self._idle.append(passenger)

    def _next_passenger(self, chance: random.Random) -> Passenger | None:
        """Known passengers first, then those without a ride, then a generated one; None if all travel."""
        number = len(self._passengers)
        if self._idle and number >= len(self._known_passengers):
            return self._idle.pop(chance.randrange(len(self._idle)))
        if number >= MOST_PASSENGERS:
            return None
        own = self._chance_of(f"passenger {number}")
        known = self._known_passengers[number : number + 1]
        passenger = Passenger(self, known[0] if known else random_id(own), own)
        self._passengers.append(passenger)
        return passenger

    def _make_drivers(self, count: int, known: Sequence[UUID]) -> list[Driver]:
        tempers = [TEMPERS[number % len(TEMPERS)] for number in range(count)]
        self._chance_of("tempers").shuffle(tempers)
        drivers: list[Driver] = []
        for number, temper in enumerate(tempers):
            own = self._chance_of(f"driver {number}")
            driver_id = known[number] if number < len(known) else random_id(own)
            drivers.append(Driver(self, driver_id, temper, own))
        return drivers

    def _chance_of(self, what: str) -> random.Random:
        return random.Random(f"{self._seed} {what}")  # noqa: S311 - a simulation, not a secret


def random_id(chance: random.Random) -> UUID:
    """The same id for the same seed, so that generated people come back."""
    return UUID(int=chance.getrandbits(128), version=4)
