"""A simulated passenger: requests a ride, follows it, and sometimes cancels."""

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from catraca.client.client import Client
from catraca.client.demo.places import Spot, random_trip
from catraca.client.errors import ClientFailure, Refused
from catraca.client.live import Live
from catraca.client.models import Ride
from catraca.client.values import Message, Question

if TYPE_CHECKING:
    from catraca.client.demo.city import City

FICKLE_SHARE = 0.08
FICKLE_SECONDS = (1.0, 40.0)
SHARING_SHARE = 0.15
# Shares of community rides, of confirmed questions, and of questions that are confirmed twice.
COMMUNITY_SHARE = 0.5
CONFIRMING_SHARE = 0.8
CONFIRMING_TWICE_SHARE = 0.3
THINKING_SECONDS = (0.5, 3.0)
# After this time without a message the ride is read.
READ_SECONDS = 20.0
ENDS = frozenset({"COMPLETED", "PAID", "PAYMENT_EXPIRED", "CANCELED", "EXPIRED"})
ACCEPTED, MATCHED_MESSAGE = "ride.accepted", "ride.matched"
COMPLETED, CANCELED, NO_DRIVER = "ride.completed", "ride.cancelled", "matching.no_drivers_available"


class Passenger:
    """One person; on a later ride the messages resume after the last one."""

    def __init__(self, city: "City", passenger_id: UUID, chance: random.Random) -> None:
        self.id = passenger_id
        self._city = city
        self._chance = chance
        self._seq: int | None = None
        self._ride: Ride | None = None
        self._requested_at = 0.0
        self._is_matched = False

    async def travel(self) -> None:
        """One ride, from the request to its end, or until the city stops."""
        self._ride, self._is_matched = None, False
        token = self._city.token_of(self.id, "passenger")
        async with Client(self._city.url, token=token) as catraca:
            try:
                async with catraca.live(since=self._seq, acknowledge=True) as live:
                    try:
                        if await self._request(catraca):
                            await self._city.unless_stopped(self._watch(catraca, live))
                    finally:
                        self._seq = live.seq
            except ClientFailure as failure:
                self._city.tally.note_failure(failure)
            with suppress(ClientFailure):
                await self._leave(catraca)

    async def _request(self, catraca: Client) -> bool:
        """True if there is a ride. An open ride of an earlier city is canceled instead."""
        pickup, dropoff = random_trip(self._chance)
        in_community = self._chance.random() < COMMUNITY_SHARE
        self._requested_at = asyncio.get_running_loop().time()
        try:
            if in_community and await catraca.communities.at(lat=pickup.lat, lng=pickup.lng):
                self._ride = await self._request_in_community(catraca, pickup, dropoff)
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

    async def _request_in_community(self, catraca: Client, pickup: Spot, dropoff: Spot) -> Ride | None:
        """The community's drivers first; without them most confirm other drivers, some of them twice."""
        tally = self._city.tally
        answer = await catraca.communities.request_ride(
            lat=pickup.lat, lng=pickup.lng, destination_lat=dropoff.lat, destination_lng=dropoff.lng
        )
        if isinstance(answer, Question):
            tally.questions["asked"] += 1
            await self._city.pause(self._chance.uniform(*THINKING_SECONDS))
            if self._chance.random() >= CONFIRMING_SHARE:
                tally.questions["declined"] += 1
                return None
            times = 2 if self._chance.random() < CONFIRMING_TWICE_SHARE else 1
            rides = await asyncio.gather(*(catraca.communities.confirm(answer.token) for _ in range(times)))
            tally.questions["confirmed"] += 1
            tally.questions["confirmed twice, two rides"] += len({ride.id for ride in rides}) - 1
            answer = rides[0]
        tally.in_communities += 1
        return await catraca.rides.read(answer.id)

    async def _watch(self, catraca: Client, live: Live) -> None:
        is_fickle = self._chance.random() < FICKLE_SHARE
        loop = asyncio.get_running_loop()
        cancel_at = loop.time() + self._chance.uniform(*FICKLE_SECONDS)
        while self._ride is not None:
            wait_until = loop.time() + READ_SECONDS
            try:
                async with asyncio.timeout_at(min(wait_until, cancel_at) if is_fickle else wait_until):
                    message = await anext(live)
            except TimeoutError:
                if is_fickle and loop.time() >= cancel_at:
                    is_fickle = False
                    await self._cancel(catraca)
                else:
                    await self._read(catraca)
            else:
                await self._receive(catraca, message)

    async def _receive(self, catraca: Client, message: Message) -> None:
        tally = self._city.tally
        tally.messages[message.type] += 1
        if self._ride is None or message.data.get("ride_id") != str(self._ride.ride_id):
            return  # about an earlier ride
        if message.type == ACCEPTED and not self._is_matched:
            self._is_matched = True
            tally.note_match(asyncio.get_running_loop().time() - self._requested_at)
        elif message.type == MATCHED_MESSAGE and self._chance.random() < SHARING_SHARE:
            await self._share(catraca)
        elif message.type in (COMPLETED, CANCELED, NO_DRIVER):
            self._end(message.type)

    async def _share(self, catraca: Client) -> None:
        """Share the trip and follow the link once."""
        assert self._ride is not None
        try:
            link = await catraca.trips.share(self._ride.ride_id)
            await catraca.trips.follow(link.token)
        except Refused as refusal:  # the ride may be over
            self._city.tally.note_failure(refusal)
        else:
            self._city.tally.shared += 1

    async def _read(self, catraca: Client) -> Ride:
        assert self._ride is not None
        found = await catraca.rides.read(self._ride.ride_id)
        if found.status in ENDS:
            by_system = found.canceled_by == "system"
            self._end(COMPLETED if found.completed_at else NO_DRIVER if by_system else CANCELED)
        return found

    async def _cancel(self, catraca: Client) -> None:
        assert self._ride is not None
        try:
            await catraca.rides.cancel(self._ride.ride_id, "changed_plans")
        except Refused as refusal:  # too late: the trip has started or ended
            self._city.tally.note_failure(refusal)

    async def _leave(self, catraca: Client) -> None:
        """Before the city stops: cancel the ride, or wait until its driver has finished it."""
        while self._ride is not None:
            ride = await self._read(catraca)
            if ride.status not in (*ENDS, "STARTED"):
                await self._cancel(catraca)
            elif ride.status == "STARTED":
                await asyncio.sleep(self._city.tick_seconds / 4)

    def _end(self, how: str) -> None:
        tally = self._city.tally
        if how == COMPLETED:
            tally.completed += 1
        elif how == CANCELED:
            tally.canceled += 1
        else:
            tally.unserved += 1
        self._ride = None

    @property
    def is_travelling(self) -> bool:
        return self._ride is not None
