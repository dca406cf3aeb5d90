"""Measures open searches, live offers and flagged rides."""

from prometheus_client import Gauge

from catraca.domains import matching
from catraca.domains.rides.flags.service import count_open_flags
from catraca.domains.rides.offers.service import count_live_offers
from catraca.platform.database import timers
from catraca.roles.parts import Parts
from catraca.roles.runner import MEASURE_SECONDS, Life, repeat

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


class RideGauges:
    def __init__(self, parts: Parts) -> None:
        self._database = parts.database

    async def run(self, life: Life) -> None:
        await repeat(self._measure, MEASURE_SECONDS, life)

    async def _measure(self) -> None:
        async with self._database.connection() as db:
            FLAGS_OPEN.set(await count_open_flags(db, up_to=timers.COUNTED_TO))
            OFFERS_LIVE.set(await count_live_offers(db))
            MATCHINGS_OPEN.set(await matching.count_open_searches(db, up_to=timers.COUNTED_TO))
