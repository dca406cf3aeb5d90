"""API processes that are frozen while they accept, and resumed when the offer has expired."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from catraca.platform.clock import now
from tests.servers import until
from tests.storms.callers import Caller, calling, crowd, request, together
from tests.storms.commit_gate import CommitGate
from tests.storms.fleet import ApiProcess, StormFleet
from tests.storms.rides.data import Offered, offer, offer_new_ride, tries_of
from tests.storms.rides.ledger import code_of, expect

# Long enough to reach the pause, on a busy machine too.
TTL_SECONDS = 2.0
LATE_SECONDS = 0.05


async def pause_before_commit(here: StormFleet, api: ApiProcess, gate: CommitGate) -> str:
    """The API is frozen before its COMMIT, with the ride locked, until the offer has expired."""
    async with _asleep_before_commit(here, api, gate) as offered:
        await until(lambda: _is_past(offered.expires_at))
    await _give_to_another(here, offered)
    return "paused before its COMMIT and woken too late: 410, and another driver has the ride"


async def pause_beyond_patience(here: StormFleet, api: ApiProcess, gate: CommitGate) -> str:
    """The API is frozen until PostgreSQL ends its transaction; another driver gets the ride meanwhile."""
    async with _asleep_before_commit(here, api, gate) as offered:
        await _give_to_another(here, offered)
    return "paused with the ride locked until PostgreSQL rolled back: another driver has it, then 410"


@asynccontextmanager
async def _asleep_before_commit(
    here: StormFleet, api: ApiProcess, gate: CommitGate
) -> AsyncIterator[Offered]:
    """Freeze the API before its COMMIT while the block runs; its attempt must then be refused as too late."""
    async with calling(here.ports, here.ledger) as caller, calling([api.port], here.ledger) as sleeper:
        offered = await offer_new_ride(caller, await here.new_drivers(1), ttl_seconds=TTL_SECONDS)
        stop = gate.stop_commit("before", of=offered.tries[0].key.encode())
        asking = asyncio.create_task(sleeper.accept(offered.tries[0]))
        await stop.reached_by(asking)
        api.pause()
        yield offered
        api.resume()
        stop.release()
        expect("offer_expired", await asking)


async def pause_before_request(here: StormFleet, api: ApiProcess) -> str:
    """A request that arrives at a frozen API is handled long after another driver got the ride."""
    async with calling(here.ports, here.ledger) as caller, calling([api.port], here.ledger) as sleeper:
        offered = await offer_new_ride(caller, await here.new_drivers(1), ttl_seconds=TTL_SECONDS)
        await sleeper.connect()
        api.pause()
        asking = asyncio.create_task(sleeper.accept(offered.tries[0]))
        await _give_to_another(here, offered)
        api.resume()
        expect("offer_expired", await asking)
    return "paused before the request: 410"


async def pause_amid_burst(here: StormFleet, *, drivers: int, after_seconds: float) -> str:
    """Freeze one of two APIs in the middle of a burst until the offers have expired."""
    sleeper = here.apis[0]
    async with crowd(here.ports, here.ledger, drivers) as callers:
        ids = await here.new_drivers(drivers)
        offered = await offer_new_ride(callers[0], ids, ttl_seconds=TTL_SECONDS)
        pairs = zip(callers, offered.tries, strict=True)
        asking = [asyncio.create_task(caller.accept(tried)) for caller, tried in pairs]
        await asyncio.sleep(after_seconds)
        sleeper.pause()
        await until(lambda: _is_past(offered.expires_at))
        sleeper.resume()
        codes = Counter(map(code_of, await together(*asking)))
    assert codes["accepted"] <= 1, codes
    assert codes.keys() <= {"accepted", "ride_already_accepted", "offer_expired"}, codes
    return "one driver has the ride" if codes["accepted"] else "no driver was in time"


async def be_late_twice(here: StormFleet, api: ApiProcess, gate: CommitGate) -> str:
    """Attempts decided in one transaction fail if one is too late; decided alone, each is too late itself."""
    async with crowd([api.port], here.ledger, 4) as (caller, *drivers):
        rides = [
            await offer_new_ride(caller, await here.new_drivers(1), ttl_seconds=ttl_seconds)
            for ttl_seconds in (60, 1.5 * TTL_SECONDS, 2 * TTL_SECONDS)
        ]
        stop = gate.stop_commit("before", of=rides[0].tries[0].key.encode())
        first = asyncio.create_task(drivers[0].accept(rides[0].tries[0]))
        await stop.reached_by(first)
        # While the first attempt is being committed, the others gather.
        gathered = await _sent_to_the_claim(caller) + 2
        asking = [
            asyncio.create_task(driver.accept(ride.tries[0]))
            for driver, ride in zip(drivers[1:], rides[1:], strict=True)
        ]
        await until(lambda: _are_sent_to_the_claim(caller, gathered))
        # The COMMIT of both together, then the first one's own, then the second one's own.
        for expired in (rides[1], rides[1], rides[2]):
            stop, last = gate.stop_commit("before", of=expired.tries[0].key.encode()), stop
            last.release()
            await stop.reached_by(asking[1])
            await until(lambda expired=expired: _is_past(expired.expires_at))
        stop.release()
        expect("accepted", await first)
        for answer in await together(*asking):
            expect("offer_expired", answer)
    return "too late together, and then alone: 410"


async def _are_sent_to_the_claim(caller: Caller, count: float) -> bool:
    return await _sent_to_the_claim(caller) >= count


async def _sent_to_the_claim(caller: Caller) -> float:
    """The number of attempts so far that were sent to the claim, from the metrics."""
    figures = (await caller.ask(request("GET", "/metrics"))).body.decode()
    name = 'catraca_ride_accepts_steered_total{way="to_the_claim"} '
    return sum(float(line.removeprefix(name)) for line in figures.splitlines() if line.startswith(name))


async def pause_in_every_way(here: StormFleet, *, drivers: int, bursts: int, seed: int) -> str:
    chance = random.Random(seed)
    async with here.gated_api() as (api, gate):
        reports = [
            await pause_before_commit(here, api, gate),
            await pause_before_request(here, api),
            await be_late_twice(here, api, gate),
            await pause_beyond_patience(here, api, gate),
        ]
    ends = Counter(
        [
            await pause_amid_burst(here, drivers=drivers, after_seconds=chance.uniform(0, 0.1))
            for _ in range(bursts)
        ]
    )
    reports += [f"{count} x paused amid a burst of {drivers}: {end}" for end, count in ends.items()]
    return "; ".join(reports)


def _is_past(moment: datetime) -> bool:
    return (now() - moment).total_seconds() > LATE_SECONDS


async def _give_to_another(here: StormFleet, offered: Offered) -> None:
    """Offer the ride to a second driver after the first offer expired, and accept it."""
    await until(lambda: _is_past(offered.expires_at))
    async with calling(here.ports, here.ledger) as caller:
        made = await offer(caller, offered.ride_id, await here.new_drivers(1), ttl_seconds=60)
        assert made.status == 201, made.body
        (tried,) = tries_of(offered.ride_id, made)
        expect("accepted", await caller.accept(tried))
