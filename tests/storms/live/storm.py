"""Hundreds of devices listen on two servers during rides and failures: each receives its notifications once.

`make test-all` runs a few per cent, `make prove` all of it; the result is a sentence with what was counted.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db
from catraca.roles.runner import all_of
from tests.rabbitmq import RabbitMq
from tests.servers import until
from tests.storms.checks import failed_checks, listed
from tests.storms.fleet import storm_fleet
from tests.storms.live.checks import CHECKS, broken_by_devices
from tests.storms.live.device import Device
from tests.storms.live.failures import LiveFailures
from tests.storms.live.people import People, call_off, gather_people, ride_in_turns
from tests.storms.matching.storm import Size as TownSize
from tests.storms.matching.storm import settle_town
from tests.storms.matching.town import Times, Town
from tests.storms.servers import StormServers

QUIET_SECONDS = 120
# With this many rides, devices must have received positions and `goodbye` frames.
SEEN_AMONG = 200
LATE_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSize:
    passengers: int = 285
    # About how long a restless device keeps a socket.
    stay_seconds: float = 30
    town: TownSize = field(
        default_factory=lambda: TownSize(
            drivers=150,
            rides=360,
            rides_a_second=2.4,
            offers_at_once=2,
            times=Times(offer_seconds=5, search_seconds=30, ping_seconds=(1.5, 4), drive_seconds=(0.5, 2)),
            lineup=(("notifier",), ("notifier",), ("dispatcher",), ("relay",), ("housekeeper",)),
            mishaps={
                "api": 5,
                "api restarted": 2,
                "api standing still": 1,
                "notifier": 6,
                "notifier standing still": 1,
                "dispatcher": 1,
                "relay": 2,
                "Redis flushed": 3,
                "Redis killed": 4,
                "PostgreSQL killed": 1,
                "RabbitMQ killed": 1,
            },
        )
    )


async def storm_live(place: StormServers, broker: RabbitMq | None, size: LiveSize, *, seed: int) -> str:
    """Run one storm; raises AssertionError when a check fails."""
    settings = size.town.times.settings(offers_at_once=size.town.offers_at_once)
    async with storm_fleet(place, lineup=size.town.lineup, settings=settings) as here:
        town, chance = Town(here, size.town.times), random.Random(seed)
        people = await gather_people(
            town,
            drivers=size.town.drivers,
            passengers=size.passengers,
            stay_seconds=size.stay_seconds,
            chance=chance,
        )
        mishaps = LiveFailures(here, broker, chance, town.over)
        began, lateness = monotonic_seconds(), Lateness()
        async with _listening(people.devices, lateness):
            await _blow(town, people, size.town, chance, mishaps)
            over = monotonic_seconds()
            at_rest = await _come_to_rest(town, people.devices)
            quiet_seconds = monotonic_seconds() - over
        async with here.database.connection() as db:
            broken = await broken_by_devices(db, people.devices, late_seconds=lateness.seconds)
            broken += await failed_checks(db, CHECKS)
            if not at_rest:
                broken.insert(0, f"not all frames were received within {QUIET_SECONDS} s")
            assert not broken, "\n".join([*broken, *here.office.complaints().splitlines()])
            report = await _report(db, people.devices, size)
        await settle_town(town, size.town)
        return "; ".join(
            [
                f"seed {seed}: {size.town.rides} rides within {over - began:.0f} s",
                *report,
                f"broken meanwhile: {listed(mishaps.happened)}",
                f"all received {quiet_seconds:.1f} s after the last ride",
                f"listeners themselves late by {lateness.seconds:.1f} s",
            ]
        )


class Lateness:
    """The largest delay of this process itself, which a late frame may be due to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            due = monotonic_seconds() + LATE_LOOK_SECONDS
            await asyncio.sleep(LATE_LOOK_SECONDS)
            self.seconds = max(self.seconds, monotonic_seconds() - due)


@asynccontextmanager
async def _listening(devices: Sequence[Device], lateness: Lateness) -> AsyncIterator[None]:
    """Listen with all devices from their greeting to the end of the block; a device's failure is raised."""
    listening = asyncio.create_task(all_of(lateness.watch(), *(device.listen() for device in devices)))
    inside = asyncio.current_task()
    assert inside is not None
    listening.add_done_callback(lambda task: task.cancelled() or inside.cancel())
    try:
        await until(lambda: all(device.first_seq is not None for device in devices))
        yield
    except asyncio.CancelledError:
        if listening.done():
            listening.result()
        raise
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _blow(
    town: Town, people: People, size: TownSize, chance: random.Random, mishaps: LiveFailures
) -> None:
    """Run rides and failures; at the end every passenger gets one more notification."""

    async def ride() -> None:
        pace = size.rides_a_second
        await all_of(
            ride_in_turns(town, people.passengers, rides=size.rides, rides_a_second=pace, chance=chance),
            mishaps.happen(size.mishaps, within_seconds=size.rides / pace),
        )
        town.over.set()
        for device in people.devices:
            device.stay()
        for driver in people.drivers:
            driver.offers.put_nowait(None)

    await all_of(ride(), *(driver.work() for driver in people.drivers))
    await all_of(*(call_off(town, one, chance) for one in people.passengers))


async def _come_to_rest(town: Town, devices: Sequence[Device]) -> bool:
    """Wait until nothing is pending and every device has everything; False after `QUIET_SECONDS`."""

    async def is_at_rest() -> bool:
        async with town.here.database.connection() as db:
            rows = await db.fetch("SELECT user_id, seq FROM notification_heads")
        heads = {row["user_id"]: row["seq"] for row in rows}
        # In this order: acknowledgements publish events, but those events make no notifications.
        return all(one.has(heads.get(one.user_id, 0)) for one in devices) and await town.here.is_quiet()

    try:
        async with asyncio.timeout(QUIET_SECONDS):
            await until(is_at_rest, seconds=QUIET_SECONDS)
            await asyncio.gather(*(device.receive_rest() for device in devices))
            await until(is_at_rest, seconds=QUIET_SECONDS)
    except TimeoutError:
        return False
    return True


async def _report(db: Db, devices: Sequence[Device], size: LiveSize) -> list[str]:
    rows = await db.fetch("SELECT type, count(*) FROM notifications GROUP BY 1")
    types = Counter({row["type"]: row["count"] for row in rows})
    sockets = sum((device.counts for device in devices), Counter())
    frames = sum(len(device.log) for device in devices)
    positions = sum(len(device.positions) for device in devices)
    if size.town.rides >= SEEN_AMONG:
        assert positions, "no position was seen"
        assert sockets["goodbye"], "no server sent `goodbye`"
    return [
        f"{len(devices)} devices of {size.passengers + size.town.drivers} people",
        f"{types.total()} notifications: {listed(types)}",
        f"received as {frames} frames and {positions} positions",
        f"sockets: {listed(sockets)}",
    ]
