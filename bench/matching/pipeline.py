"""The full path without HTTP: all other roles in one process, and drivers that accept at once."""

import asyncio
from collections.abc import Sequence
from time import perf_counter, process_time
from uuid import UUID

from bench.matching.fixtures import delete_rides, new_passengers, request_rides
from bench.matching.load import MatchResult
from bench.processor import servers_worked
from catraca.domains.location import release_drivers
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.acceptance.model import Attempt
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.ids import new_id
from catraca.roles.dispatcher import Dispatcher
from catraca.roles.housekeeper import Housekeeper
from catraca.roles.parts import Parts, open_parts
from catraca.roles.relay import Relay
from catraca.roles.runner import Life
from catraca.settings import Settings

LIMIT_SECONDS = 120
LOOK_SECONDS = 0.02


async def match_rides(settings: Settings, *, count: int) -> MatchResult:
    """Match `count` rides: all are requested first, and every driver accepts at once."""
    async with open_parts(settings) as parts:
        # Events left by another load on this database must not load this one.
        await delete_rides(parts.database, [])
        passengers = await new_passengers(parts.database, count)
        asked = await request_rides(parts.database, passengers)
        life = Life()
        servers, worked = servers_worked(settings.process.state_dir), process_time()
        began = perf_counter()
        roles = (Relay(parts), Dispatcher(parts), Housekeeper(parts))
        running = [asyncio.create_task(role.run(life)) for role in roles]
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await _accept_all(parts, asked)
            taken = perf_counter() - began
            worked = process_time() - worked
            servers = servers_worked(settings.process.state_dir) - servers
        finally:
            life.stopping.set()
            await asyncio.gather(*running)
        await _release_drivers(parts, asked)
        await delete_rides(parts.database, asked)
        return MatchResult(taken, {"dispatcher": worked, **servers})


async def _release_drivers(parts: Parts, asked: Sequence[RideId]) -> None:
    """Release the drivers' locks, which otherwise outlive the deleted rides."""
    async with parts.database.connection() as db:
        offers = await db.fetch(
            "SELECT ride_id, driver_id FROM ride_offers WHERE ride_id = ANY ($1::uuid[])", asked
        )
    for offer in offers:
        await release_drivers(parts.redis, [offer["driver_id"]], ride_id=offer["ride_id"])


async def _accept_all(parts: Parts, asked: Sequence[RideId]) -> None:
    accepting = Acceptance(parts.database)
    tried: dict[UUID, asyncio.Task[object]] = {}
    while True:
        async with parts.database.connection() as db:
            offers = await db.fetch(
                "SELECT id, ride_id, driver_id FROM ride_offers"
                " WHERE ride_id = ANY ($1::uuid[]) AND response IS NULL",
                asked,
            )
            matched = await db.fetchval(
                "SELECT count(*) FROM matchings WHERE ride_id = ANY ($1::uuid[]) AND phase = 'matched'", asked
            )
        if matched == len(asked):
            break
        for offer in offers:
            if offer["id"] not in tried:
                attempt = Attempt(
                    id=new_id(),
                    ride_id=offer["ride_id"],
                    driver_id=UserId(offer["driver_id"]),
                    actor_id=offer["driver_id"],
                    idempotency_key=None,
                )
                tried[offer["id"]] = asyncio.create_task(accepting.accept_ride(attempt))
        await asyncio.sleep(LOOK_SECONDS)
    await asyncio.gather(*tried.values())
