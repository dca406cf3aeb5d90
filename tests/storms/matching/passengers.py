"""Passengers of a town: each requests a ride and polls it to its end; some cancel."""

import asyncio
import random
from uuid import UUID, uuid4

from catraca.platform.clock import monotonic_seconds
from catraca.roles.runner import all_of
from tests.storms.callers import request, token_of
from tests.storms.matching.town import Town, way_to_go
from tests.storms.rides.data import act, ask_for_ride

FICKLE_SHARE = 0.12
ENDS = ("COMPLETED", "CANCELED", "EXPIRED")
# Failures are short: a ride that is not over by then is a fault.
PATIENCE_SECONDS = 300


async def arrive(town: Town, *, rides: int, rides_a_second: float, chance: random.Random) -> None:
    """Request rides at this pace; ends when the last ride is over."""

    async def come(number: int, own_chance: random.Random) -> None:
        await asyncio.sleep(number / rides_a_second)
        await travel(town, uuid4(), own_chance)

    await all_of(*(come(number, random.Random(chance.random())) for number in range(rides)))


async def travel(town: Town, passenger_id: UUID, chance: random.Random) -> None:
    """Request a ride, and poll it to its end."""
    token = token_of("passenger", passenger_id)
    async with town.calling() as caller:
        ride_id = await ask_for_ride(caller, passenger_id, way_to_go(chance))
        town.ledger.done["asked for"].add((ride_id, passenger_id))
        began = monotonic_seconds()
        cancel_at = began + chance.uniform(0, town.times.fickle_seconds)
        is_fickle = chance.random() < FICKLE_SHARE
        while True:
            if is_fickle:
                await asyncio.sleep(max(0.0, cancel_at - monotonic_seconds()))
                answer = await act(caller, ride_id, "cancel", token=token, reason="changed_plans")
                assert answer.status in (200, 409), answer.body
                if answer.status == 200:
                    town.ledger.done["canceled"].add((ride_id, passenger_id))
                is_fickle = False
            seen = await caller.ask(request("GET", f"/v1/rides/{ride_id}", token=token))
            assert seen.status == 200, seen.body
            ride = seen.json()
            if ride["status"] in ENDS:
                town.ledger.ends[ride_id] = (ride["status"], ride["driver_id"])
                return
            waited_seconds = monotonic_seconds() - began
            assert waited_seconds < PATIENCE_SECONDS, (
                f"{ride_id} is {ride['status']} since {waited_seconds:.0f} s"
            )
            await asyncio.sleep(town.times.watch_seconds)
