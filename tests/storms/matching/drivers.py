"""Drivers of a town: each sends positions, and answers offers at random."""

import asyncio
import random
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from catraca.platform.clock import now
from catraca.platform.errors import Refusal
from catraca.platform.pauses import within
from catraca.roles.runner import all_of
from tests.storms.callers import Caller, request, token_of
from tests.storms.matching.town import Town, somewhere
from tests.storms.rides.data import act, reject
from tests.storms.rides.ledger import Try

# What drivers do with an offer, in per cent.
WHIMS = {"accept": 62, "refuse": 16, "be silent": 8, "leave": 6, "accept at the last moment": 8}
GIVE_UP_SHARE = 0.2
# The share of pings at which a driver takes a break, or the phone dies for a while.
BREAK_SHARE = 0.01
DEAD_PHONE_SHARE = 0.005
LAST_MOMENT_SECONDS = (-0.15, 0.05)
# Most answer within the first part of an offer's time.
THINK_PART = 4
LOOK_SECONDS = 0.1
# These drivers have no socket: the test reads their offers from the database.
LIVE = "SELECT id, ride_id, driver_id, expires_at FROM ride_offers WHERE held AND response IS NULL"


class Driver:
    def __init__(self, town: Town, driver_id: UUID, chance: random.Random) -> None:
        self._town = town
        self._ledger = town.ledger
        self._chance = chance
        self._spot = somewhere(chance)
        self._token = token_of("driver", driver_id)
        self.id = driver_id
        self.offers: asyncio.Queue[tuple[Try, datetime] | None] = asyncio.Queue()

    async def work(self) -> None:
        """Work until the storm is over and all offers are handled; then go offline."""
        async with self._town.calling() as caller:
            await self._be(caller, online=True)
            await all_of(self._keep_reporting(), self._take_offers())
            await self._be(caller, online=False)

    async def _keep_reporting(self) -> None:
        async with self._town.calling() as caller:
            while not await within(self._chance.uniform(*self._town.times.ping_seconds), self._town.over):
                whim = self._chance.random()
                if whim < BREAK_SHARE:
                    await self._take_a_break(caller)
                elif whim < BREAK_SHARE + DEAD_PHONE_SHARE:
                    await within(self._town.times.presence_seconds * 1.5, self._town.over)
                else:
                    await self._ping(caller)

    async def _ping(self, caller: Caller) -> None:
        self._spot.wander(self._chance)
        path = f"/v1/location/drivers/{self.id}/pings"
        answer = await caller.ask(request("POST", path, token=self._token, body=self._spot.body()))
        if answer.status == 409:  # on a break, or set offline as silent
            await self._be(caller, online=True)
        else:
            assert answer.status == 200, answer.body

    async def _take_a_break(self, caller: Caller) -> None:
        await self._be(caller, online=False)
        await asyncio.sleep(self._chance.uniform(*self._town.times.break_seconds))
        await self._be(caller, online=True)

    async def _be(self, caller: Caller, *, online: bool) -> None:
        body = {"online": online, **({"position": self._spot.body()} if online else {})}
        path = f"/v1/location/drivers/{self.id}/status"
        answer = await caller.ask(request("PUT", path, token=self._token, body=body))
        assert answer.status == 200, answer.body

    async def _take_offers(self) -> None:
        async with self._town.calling() as caller:
            while (offer := await self.offers.get()) is not None:
                await self._consider(caller, *offer)

    async def _consider(self, caller: Caller, offer: Try, expires_at: datetime) -> None:
        seen = await caller.ask(request("GET", f"/v1/rides/{offer.ride_id}", token=self._token))
        assert seen.status in (200, 404), seen.body  # the offer may have ended already
        (whim,) = self._chance.choices(list(WHIMS), list(WHIMS.values()))
        self._ledger.whims[whim] += 1
        if whim == "be silent":
            return
        if whim == "leave":
            await self._take_a_break(caller)
            return
        left_seconds = (expires_at - now()).total_seconds()
        if whim == "accept at the last moment":
            await asyncio.sleep(left_seconds + self._chance.uniform(*LAST_MOMENT_SECONDS))
        else:
            await asyncio.sleep(self._chance.uniform(0, max(0.0, left_seconds / THINK_PART)))
        await (self._refuse(caller, offer) if whim == "refuse" else self._accept(caller, offer))

    async def _refuse(self, caller: Caller, offer: Try) -> None:
        answer = await reject(caller, offer)
        assert answer.status in (200, 409, 410), answer.body
        if answer.status == 200:
            self._ledger.done["refused"].add((offer.ride_id, self.id))

    async def _accept(self, caller: Caller, offer: Try) -> None:
        answer = await caller.accept(offer)
        if answer.status == 200 and await self._has(caller, offer.ride_id):
            await self._drive(caller, offer.ride_id)

    async def _has(self, caller: Caller, ride_id: UUID) -> bool:
        active = await caller.ask(request("GET", f"/v1/drivers/{self.id}/active-ride", token=self._token))
        if active.status == 200:
            assert active.json()["ride_id"] == str(ride_id), f"{self.id} drives another ride than {ride_id}"
            return True
        self._ledger.robbed.add((ride_id, self.id))
        return False

    async def _drive(self, caller: Caller, ride_id: UUID) -> None:
        """Drive the ride to its end, give it up, or lose it to a cancellation."""
        steps = ["arrive", "start", "complete"]
        if self._chance.random() < GIVE_UP_SHARE:
            steps = self._chance.choice([[], ["arrive"]])
        for verb in steps:
            await asyncio.sleep(self._chance.uniform(*self._town.times.drive_seconds))
            if not await self._did(caller, ride_id, verb):
                return
        if steps[-1:] == ["complete"]:
            self._ledger.done["completed"].add((ride_id, self.id))
        elif await self._did(caller, ride_id, "cancel", reason="vehicle_problem"):
            self._ledger.done["given up"].add((ride_id, self.id))

    async def _did(self, caller: Caller, ride_id: UUID, verb: str, **body: object) -> bool:
        answer = await act(caller, ride_id, verb, token=self._token, **body)
        assert answer.status in (200, 409), answer.body
        if answer.status == 409:
            self._ledger.robbed.add((ride_id, self.id))
        return answer.status == 200


async def ring_phones(town: Town, drivers: list[Driver]) -> None:
    """Pass each offer to its driver as soon as it appears, until the storm is over."""
    by_id = {driver.id: driver for driver in drivers}
    rung: set[UUID] = set()
    while not await within(LOOK_SECONDS, town.over):
        with suppress(Refusal):  # PostgreSQL is away
            async with town.here.database.connection() as db:
                rows = await db.fetch(LIVE)
            for row in rows:
                if row["id"] not in rung:
                    rung.add(row["id"])
                    offer = Try(row["ride_id"], row["driver_id"], row["id"])
                    by_id[row["driver_id"]].offers.put_nowait((offer, row["expires_at"]))
    for driver in drivers:
        driver.offers.put_nowait(None)
