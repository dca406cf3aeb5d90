"""Drivers who say where they are, and their passengers who see it, each on a socket of their own."""

import asyncio
from functools import partial
from time import monotonic

import msgspec

from bench.live.wire import Wire, open_wires

# So long a driver has been heard of before anything counts.
WARM_UP_SECONDS = 3.0
LAST_SECONDS = 2.0
# A ping's number travels as the speed, of which more than that is not believed.
NUMBERS = 60
STEP_DEGREES = 0.00005


class Orders(msgspec.Struct, frozen=True):
    """Drivers at one address and their passengers at another, by pairs; a ping each, so often a second."""

    drivers_url: str
    passengers_url: str
    drivers: list[str]
    passengers: list[str]
    pings_a_second: float
    seconds: float


class Seen(msgspec.Struct, frozen=True):
    pings: int
    # How long after its ping each position was seen.
    delays: list[float]


class Driving:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._sent: dict[tuple[int, int], float] = {}
        self._delays: list[float] = []
        self._counting = False
        self._pings = 0
        self._refused: bytes | None = None

    async def run(self) -> Seen:
        orders = self._orders
        watching = [partial(self._see, place) for place in range(len(orders.passengers))]
        await open_wires(orders.passengers_url, orders.passengers, watching)
        drivers = await open_wires(orders.drivers_url, orders.drivers, [self._hear] * len(orders.drivers))
        for place, wire in enumerate(drivers):
            wire.say(_said("location.status", {"online": True, "position": _position(place, 0)}))
        driving = [asyncio.create_task(self._drive(place, wire)) for place, wire in enumerate(drivers)]
        await asyncio.sleep(WARM_UP_SECONDS)
        self._counting = True
        await asyncio.sleep(orders.seconds)
        self._counting = False
        for task in driving:
            task.cancel()
        await asyncio.sleep(LAST_SECONDS)  # for what is still on its way, and counts
        if self._refused is not None:
            raise RuntimeError(self._refused.decode())
        return Seen(self._pings, self._delays)

    async def _drive(self, place: int, wire: Wire) -> None:
        every_seconds = 1 / self._orders.pings_a_second
        await asyncio.sleep(1 + place / len(self._orders.drivers) * every_seconds)
        number = 0
        while True:
            number = (number + 1) % NUMBERS
            if self._counting:
                self._sent[place, number] = monotonic()
                self._pings += 1
            wire.say(_said("location.ping", {**_position(place, number % 2), "speed": number}))
            await asyncio.sleep(every_seconds)

    def _hear(self, frame: bytes) -> None:
        if frame.startswith(b'{"type":"error"'):
            self._refused = frame

    def _see(self, place: int, frame: bytes) -> None:
        if b'"type":"position"' not in frame:
            return
        number = int(msgspec.json.decode(frame)["data"]["speed_mps"])
        sent_at = self._sent.pop((place, number), None)
        if sent_at is not None:
            self._delays.append(monotonic() - sent_at)


async def drive(orders: Orders) -> Seen:
    return await Driving(orders).run()


def _position(place: int, step: int) -> dict[str, float]:
    return {"lat": -12.98 + place * 0.0001 + step * STEP_DEGREES, "lng": -38.5}


def _said(kind: str, data: dict[str, object] | dict[str, float]) -> bytes:
    return msgspec.json.encode({"type": kind, "data": data})
