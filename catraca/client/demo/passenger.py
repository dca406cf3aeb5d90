"""A simulated passenger: asks for a ride, watches it, and sometimes changes plans."""

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from catraca.client.client import Client
from catraca.client.demo.places import Spot, some_trip
from catraca.client.errors import ClientFailure, Refused
from catraca.client.live import Live
from catraca.client.models import Ride
from catraca.client.values import Message, Question

if TYPE_CHECKING:
    from catraca.client.demo.city import City

FICKLE_SHARE = 0.08
FICKLE_SECONDS = (1.0, 40.0)
SHARING_SHARE = 0.15
# Who asks for a ride of their community, if they are in one; what they say when its drivers are not there,
# and who presses twice.
COMMUNITY_SHARE = 0.5
CONFIRMING_SHARE = 0.8
PRESSING_TWICE_SHARE = 0.3
THINKING_SECONDS = (0.5, 3.0)
# Who has heard nothing for so long looks for themselves.
LOOK_SECONDS = 20.0
ENDS = frozenset({"COMPLETED", "PAID", "PAYMENT_EXPIRED", "CANCELED", "EXPIRED"})
MATCHED, SOMEBODY_COMES = "ride.accepted", "ride.matched"
COMPLETED, OFF, NOBODY = "ride.completed", "ride.cancelled", "matching.no_drivers_available"


class Passenger:
    """One person; who travels again goes on hearing where they stopped."""

    def __init__(self, city: "City", passenger_id: UUID, chance: random.Random) -> None:
        self.id = passenger_id
        self._city = city
        self._chance = chance
        self._seq: int | None = None
        self._ride: Ride | None = None
        self._asked_at = 0.0
        self._is_matched = False

    async def travel(self) -> None:
        """One ride, from the request to its end, or to the end of the city."""
        self._ride, self._is_matched = None, False
        token = self._city.token_of(self.id, "passenger")
        async with Client(self._city.url, token=token) as catraca:
            try:
                async with catraca.live(since=self._seq, acknowledge=True) as live:
                    try:
                        if await self._ask(catraca):
                            await self._city.unless_stopped(self._watch(catraca, live))
                    finally:
                        self._seq = live.seq
            except ClientFailure as failure:
                self._city.tally.note_failure(failure)
            with suppress(ClientFailure):
                await self._leave(catraca)

    async def _ask(self, catraca: Client) -> bool:
        """Whether there is a ride; who still has another from an earlier city gives that up instead."""
        pickup, dropoff = some_trip(self._chance)
        in_community = self._chance.random() < COMMUNITY_SHARE
        self._asked_at = asyncio.get_running_loop().time()
        try:
            if in_community and await catraca.communities.at(lat=pickup.lat, lng=pickup.lng):
                self._ride = await self._ask_in_community(catraca, pickup, dropoff)
            else:
                self._ride = await catraca.rides.request(
                    pickup_lat=pickup.lat,
                    pickup_lon=pickup.lng,
                    dropoff_lat=dropoff.lat,
                    dropoff_lon=dropoff.lng,
                )
        except Refused as refusal:
            self._city.tally.note_failure(refusal)
            if refusal.code == "ride_already_open":
                await catraca.rides.cancel(UUID(refusal.data["ride_id"]), "changed_plans")
            return False
        self._city.tally.requested += self._ride is not None
        return self._ride is not None

    async def _ask_in_community(self, catraca: Client, pickup: Spot, dropoff: Spot) -> Ride | None:
        """Its own drivers first; if they are not there, others will do for most, and some press twice."""
        tally = self._city.tally
        answer = await catraca.communities.request_ride(
            lat=pickup.lat, lng=pickup.lng, destination_lat=dropoff.lat, destination_lng=dropoff.lng
        )
        if isinstance(answer, Question):
            tally.questions["asked"] += 1
            await self._city.pause(self._chance.uniform(*THINKING_SECONDS))
            if self._chance.random() >= CONFIRMING_SHARE:
                tally.questions["let go"] += 1
                return None
            times = 2 if self._chance.random() < PRESSING_TWICE_SHARE else 1
            rides = await asyncio.gather(*(catraca.communities.confirm(answer.token) for _ in range(times)))
            tally.questions["confirmed"] += 1
            tally.questions["pressed twice, two rides"] += len({ride.id for ride in rides}) - 1
            answer = rides[0]
        tally.in_communities += 1
        return await catraca.rides.read(answer.id)

    async def _watch(self, catraca: Client, live: Live) -> None:
        is_fickle = self._chance.random() < FICKLE_SHARE
        loop = asyncio.get_running_loop()
        cancel_at = loop.time() + self._chance.uniform(*FICKLE_SECONDS)
        while self._ride is not None:
            wait_until = loop.time() + LOOK_SECONDS
            try:
                async with asyncio.timeout_at(min(wait_until, cancel_at) if is_fickle else wait_until):
                    message = await anext(live)
            except TimeoutError:
                if is_fickle and loop.time() >= cancel_at:
                    is_fickle = False
                    await self._cancel(catraca)
                else:
                    await self._look(catraca)
            else:
                await self._hear(catraca, message)

    async def _hear(self, catraca: Client, message: Message) -> None:
        tally = self._city.tally
        tally.messages[message.type] += 1
        if self._ride is None or message.data.get("ride_id") != str(self._ride.ride_id):
            return  # of an earlier ride
        if message.type == MATCHED and not self._is_matched:
            self._is_matched = True
            tally.note_match(asyncio.get_running_loop().time() - self._asked_at)
        elif message.type == SOMEBODY_COMES and self._chance.random() < SHARING_SHARE:
            await self._share(catraca)
        elif message.type in (COMPLETED, OFF, NOBODY):
            self._end(message.type)

    async def _share(self, catraca: Client) -> None:
        """Somebody at home follows the trip; they look once."""
        assert self._ride is not None
        try:
            link = await catraca.trips.share(self._ride.ride_id)
            await catraca.trips.follow(link.token)
        except Refused as refusal:  # it may be over already
            self._city.tally.note_failure(refusal)
        else:
            self._city.tally.shared += 1

    async def _look(self, catraca: Client) -> Ride:
        assert self._ride is not None
        found = await catraca.rides.read(self._ride.ride_id)
        if found.status in ENDS:
            self._end(COMPLETED if found.completed_at else NOBODY if found.canceled_by == "system" else OFF)
        return found

    async def _cancel(self, catraca: Client) -> None:
        assert self._ride is not None
        try:
            await catraca.rides.cancel(self._ride.ride_id, "changed_plans")
        except Refused as refusal:  # too late: it is being driven, or over
            self._city.tally.note_failure(refusal)

    async def _leave(self, catraca: Client) -> None:
        """The city ends: what has not begun is canceled, what has is finished by its driver."""
        while self._ride is not None:
            ride = await self._look(catraca)
            if ride.status not in (*ENDS, "STARTED"):
                await self._cancel(catraca)
            elif ride.status == "STARTED":
                await asyncio.sleep(self._city.tick_seconds / 4)

    def _end(self, how: str) -> None:
        tally = self._city.tally
        if how == COMPLETED:
            tally.completed += 1
        elif how == OFF:
            tally.canceled += 1
        else:
            tally.unserved += 1
        self._ride = None

    @property
    def is_travelling(self) -> bool:
        return self._ride is not None
