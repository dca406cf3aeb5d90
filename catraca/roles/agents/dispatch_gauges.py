"""Measures open searches, live offers, flagged rides and timers."""

from prometheus_client import Gauge

from catraca.domains import matching
from catraca.domains.rides.flags.store import count_open_flags
from catraca.domains.rides.offers.store import count_live_offers
from catraca.platform.database import timers
from catraca.roles.parts import Parts

OFFERS_LIVE = Gauge(
    "catraca_ride_offers_live",
    "Offers that wait for a driver's answer.",
    multiprocess_mode="livemostrecent",
)
MATCHINGS_OPEN = Gauge(
    "catraca_matchings_open",
    "Rides whose search for a driver is open, counted up to 10 000.",
    multiprocess_mode="livemostrecent",
)
FLAGS_OPEN = Gauge(
    "catraca_ride_flags_open",
    "Flagged rides that wait for an operator's review, counted up to 10 000.",
    multiprocess_mode="livemostrecent",
)
TIMERS_PENDING = Gauge(
    "catraca_timers_pending",
    "Timers set, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
TIMERS_OVERDUE = Gauge(
    "catraca_timers_overdue",
    "Timers that are due and did not fire in time, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
# A kind that has no timers left is set to 0, or its last value would stay.
_kinds: set[timers.TimerKind] = set()


async def measure_rides(parts: Parts) -> None:
    async with parts.database.connection() as db:
        FLAGS_OPEN.set(await count_open_flags(db, up_to=timers.COUNTED_TO))
        OFFERS_LIVE.set(await count_live_offers(db))
        MATCHINGS_OPEN.set(await matching.count_open_searches(db, up_to=timers.COUNTED_TO))


async def measure_timers(parts: Parts) -> None:
    async with parts.database.connection() as db:
        counts = {count.kind: count for count in await timers.count_timers(db)}
    _kinds.update(counts)
    for kind in _kinds:
        count = counts.get(kind)
        TIMERS_PENDING.labels(kind).set(count.pending if count else 0)
        TIMERS_OVERDUE.labels(kind).set(count.overdue if count else 0)
