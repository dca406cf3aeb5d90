"""Drivers that send positions and passengers that receive them, each on its own socket."""

import asyncio
from functools import partial
from time import monotonic

import msgspec

from bench.live.wire import Wire, open_wires

# Pings before the measurement.
WARM_UP_SECONDS = 3.0
LAST_SECONDS = 2.0
# A ping's number is sent as its speed; larger speeds are refused.
NUMBERS = 60
STEP_DEGREES = 0.00005


class Orders(msgspec.Struct, frozen=True):
    """Drivers at one address and their passengers at another, in pairs."""

    drivers_url: str
    passengers_url: str
    drivers: list[str]
    passengers: list[str]
    pings_a_second: float
    seconds: float


class DriveResult(msgspec.Struct, frozen=True):
    pings: int
    # Seconds from each ping to its position.
    delays: list[float]


class DriverLoad:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._sent: dict[tuple[int, int], float] = {}
        self._delays: list[float] = []
        self._counting = False
        self._pings = 0
        self._refused: bytes | None = None

    async def run(self) -> DriveResult:
        orders = self._orders
        watching = [partial(self._on_position, place) for place in range(len(orders.passengers))]
        await open_wires(orders.passengers_url, orders.passengers, watching)
        drivers = await open_wires(orders.drivers_url, orders.drivers, [self._on_reply] * len(orders.drivers))
        for place, wire in enumerate(drivers):
            wire.send_text(_message("location.status", {"online": True, "position": _position(place, 0)}))
        driving = [asyncio.create_task(self._drive(place, wire)) for place, wire in enumerate(drivers)]
        await asyncio.sleep(WARM_UP_SECONDS)
        self._counting = True
        await asyncio.sleep(orders.seconds)
        self._counting = False
        for task in driving:
            task.cancel()
        await asyncio.sleep(LAST_SECONDS)  # for positions that are still on the way
        if self._refused is not None:
            raise RuntimeError(self._refused.decode())
        return DriveResult(self._pings, self._delays)

    async def _drive(self, place: int, wire: Wire) -> None:
        every_seconds = 1 / self._orders.pings_a_second
        await asyncio.sleep(1 + place / len(self._orders.drivers) * every_seconds)
        number = 0
        while True:
            number = (number + 1) % NUMBERS
            if self._counting:
                self._sent[place, number] = monotonic()
                self._pings += 1
            wire.send_text(_message("location.ping", {**_position(place, number % 2), "speed": number}))
            await asyncio.sleep(every_seconds)

    def _on_reply(self, frame: bytes) -> None:
        if frame.startswith(b'{"type":"error"'):
            self._refused = frame

    def _on_position(self, place: int, frame: bytes) -> None:
        if b'"type":"position"' not in frame:
            return
        number = int(msgspec.json.decode(frame)["data"]["speed_mps"])
        sent_at = self._sent.pop((place, number), None)
        if sent_at is not None:
            self._delays.append(monotonic() - sent_at)


async def drive(orders: Orders) -> DriveResult:
    return await DriverLoad(orders).run()


def _position(place: int, step: int) -> dict[str, float]:
    return {"lat": -12.98 + place * 0.0001 + step * STEP_DEGREES, "lng": -38.5}


def _message(kind: str, data: dict[str, object] | dict[str, float]) -> bytes:
    return msgspec.json.encode({"type": kind, "data": data})
