"""Tells where drivers on a ride are, about once a second each; what cannot be told now is not told at all."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from catraca.domains import rides
from catraca.domains.location.model import DriverId, Ping
from catraca.events import DriverUpdated
from catraca.platform.bus import Headers, Message
from catraca.platform.database import Transact
from catraca.platform.errors import Refusal
from catraca.platform.event import encode, key_of
from catraca.platform.ids import new_id

# So that a position is on the passenger's map within a second.
EVERY_SECONDS = 0.75
ASKED_AT_ONCE = 2000

Publish = Callable[[Sequence[Message]], Awaitable[None]]


class Tracking:
    """Remembers who pinged, and asks now and then which of them drive somebody."""

    def __init__(self, transact: Transact, publish: Publish, *, every_seconds: float = EVERY_SECONDS) -> None:
        self._transact = transact
        self._publish = publish
        self._every_seconds = every_seconds
        self._moved: dict[DriverId, tuple[Ping, datetime]] = {}
        self._telling: asyncio.Task[None] | None = None

    def note(self, driver_id: DriverId, ping: Ping, *, at: datetime) -> None:
        """The driver is here now; told a little later, if it is still the newest and they are on a ride."""
        self._moved[driver_id] = (ping, at)
        if self._telling is None:
            # Of its own context: it outlives the request that happened to start it.
            self._telling = asyncio.create_task(self._tell_on(), context=contextvars.Context())

    async def _tell_on(self) -> None:
        try:
            while self._moved:
                await asyncio.sleep(self._every_seconds)
                moved, self._moved = self._moved, {}
                pinged = list(moved)
                for start in range(0, len(pinged), ASKED_AT_ONCE):
                    await self._tell({one: moved[one] for one in pinged[start : start + ASKED_AT_ONCE]})
        finally:
            self._telling = None

    async def _tell(self, moved: dict[DriverId, tuple[Ping, datetime]]) -> None:
        try:
            holds = await self._transact(lambda db: rides.busy_drivers(db, moved))
        except Refusal:
            return
        messages = [
            _message(DriverId(driver_id), hold.ride_id, *moved[DriverId(driver_id)])
            for driver_id, hold in holds.items()
            if hold.driving
        ]
        if messages:
            await self._publish(messages)


def _message(driver_id: DriverId, ride_id: UUID, ping: Ping, at: datetime) -> Message:
    event = DriverUpdated(
        driver_id=driver_id,
        ride_id=ride_id,
        lat=ping.place.lat,
        lng=ping.place.lon,
        recorded_at=ping.at,
        accuracy_meters=ping.accuracy_meters,
        speed_mps=ping.speed_mps,
        heading_degrees=ping.heading_degrees,
        timestamp=at,
    )
    return Message(
        id=new_id(),
        exchange=event.exchange,
        key=key_of(DriverUpdated),
        body=encode(event),
        headers=Headers(aggregate_id=driver_id),
    )
