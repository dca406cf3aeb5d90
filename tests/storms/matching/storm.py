"""Rides all over a town while processes and servers fail: every ride ends correctly.

`make test-all` runs a few per cent, `make prove` all of it; the result is a sentence with what was counted.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db
from catraca.roles.runner import all_of
from tests.rabbitmq import RabbitMq
from tests.storms.checks import failed_checks, listed
from tests.storms.failures import Failures
from tests.storms.fleet import storm_fleet
from tests.storms.matching.checks import promises
from tests.storms.matching.drivers import Driver, ring_phones
from tests.storms.matching.ledger import broken_by_town, count_for_newest_offers
from tests.storms.matching.locks import broken_locks
from tests.storms.matching.passengers import arrive
from tests.storms.matching.town import Times, Town
from tests.storms.servers import StormServers

# With this many rides each of these must occur: a storm in which all goes well proves little.
SEEN_AMONG = 200
ENDS = {"COMPLETED", "CANCELED by passenger", "CANCELED by system"}
RESPONSES = {"ACCEPTED", "REJECTED", "EXPIRED", "CANCELED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    drivers: int = 200
    rides: int = 300
    rides_a_second: float = 2.5
    offers_at_once: int = 1
    times: Times = field(default_factory=Times)
    # Two dispatchers and two relays; the APIs are not listed here.
    lineup: Sequence[tuple[str, ...]] = (
        ("dispatcher",),
        ("dispatcher",),
        ("relay",),
        ("relay",),
        ("housekeeper", "notifier"),
    )
    mishaps: Mapping[str, int] = field(
        default_factory=lambda: {
            "dispatcher": 10,
            "api": 4,
            "relay": 5,
            "housekeeper": 3,
            "Redis flushed": 4,
            "Redis killed": 3,
            "RabbitMQ killed": 2,
            "PostgreSQL killed": 1,
        }
    )


async def storm_matching(place: StormServers, broker: RabbitMq | None, size: Size, *, seed: int) -> str:
    """Run one storm; raises AssertionError when a check fails."""
    settings = size.times.settings(offers_at_once=size.offers_at_once)
    async with storm_fleet(place, lineup=size.lineup, settings=settings) as here:
        town, chance = Town(here, size.times), random.Random(seed)
        mishaps = Failures(here, broker, chance, town.over)
        began = monotonic_seconds()
        await _blow(town, size, chance, mishaps)
        over = monotonic_seconds()
        await settle_town(town, size)
        async with here.database.connection() as db:
            report = await _report(db, town, size)
        return "; ".join(
            [
                f"seed {seed}, {size.offers_at_once} at once: {size.rides} rides within {over - began:.0f} s",
                *report,
                f"broken meanwhile: {listed(mishaps.happened)}",
                f"quiet {monotonic_seconds() - over:.1f} s after the last one",
            ]
        )


async def _blow(town: Town, size: Size, chance: random.Random, mishaps: Failures) -> None:
    """Run drivers, rides and failures until the last ride is over."""
    ids = await town.here.new_drivers(size.drivers)
    drivers = [Driver(town, driver_id, random.Random(chance.random())) for driver_id in ids]
    await all_of(
        ring_phones(town, drivers),
        _ride(town, size, chance, mishaps),
        *(driver.work() for driver in drivers),
    )


async def _ride(town: Town, size: Size, chance: random.Random, mishaps: Failures) -> None:
    seconds = size.rides / size.rides_a_second
    await all_of(
        arrive(town, rides=size.rides, rides_a_second=size.rides_a_second, chance=chance),
        mishaps.happen(size.mishaps, within_seconds=seconds),
    )
    town.over.set()


async def settle_town(town: Town, size: Size) -> None:
    """Wait until nothing is pending, then run all checks."""
    offer_seconds = size.times.offer_seconds
    wanted = promises(offers_at_once=size.offers_at_once, offer_seconds=offer_seconds)

    async def broken() -> list[str]:
        async with town.here.database.connection() as db:
            return [
                *await failed_checks(db, wanted),
                *await broken_by_town(db, town.ledger),
                *await broken_locks(town.here, db, offer_seconds=offer_seconds),
            ]

    async with town.here.database.connection() as db:
        await count_for_newest_offers(db, town.here.ledger)
    await town.here.settle(broken)


async def _report(db: Db, town: Town, size: Size) -> list[str]:
    ends = Counter(
        {
            row["ending"]: row["count"]
            for row in await db.fetch(
                "SELECT concat_ws(' by ', status, canceled_by) AS ending, count(*) FROM rides GROUP BY 1"
            )
        }
    )
    rows = await db.fetch("SELECT response, count(*) FROM ride_offers GROUP BY 1")
    responses = Counter({row["response"]: row["count"] for row in rows})
    if size.rides >= SEEN_AMONG:
        wanted = RESPONSES if size.offers_at_once > 1 else RESPONSES - {"CANCELED"}
        assert ends.keys() >= ENDS, f"never seen: {ENDS - ends.keys()}"
        assert responses.keys() >= wanted, f"never seen: {wanted - responses.keys()}"
    waits = await db.fetchrow(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY wait) AS half,"
        " percentile_cont(0.95) WITHIN GROUP (ORDER BY wait) AS most FROM ("
        "   SELECT extract(epoch FROM min(o.offered_at) - r.created_at) AS wait"
        "   FROM rides r JOIN ride_offers o ON o.ride_id = r.id GROUP BY r.id) AS waits"
    )
    assert waits is not None
    return [
        f"ended: {listed(ends)}",
        f"{responses.total()} offers: {listed(responses)}; {len(town.ledger.done['given up'])} given up",
        f"first offer after {waits['half']:.2f} s, of 95 % within {waits['most']:.1f} s",
        f"answers: {listed(town.here.ledger.counts)}",
    ]
