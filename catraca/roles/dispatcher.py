"""The role that moves rides on: by what happened, and by the passing of time."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from prometheus_client import Gauge

from catraca.domains import location, matching
from catraca.domains.communities import EdgeRules
from catraca.domains.geofences import jobs as geofence_jobs
from catraca.domains.location.jobs import Keeper
from catraca.domains.matching.search.jobs import matching_timers
from catraca.domains.rides.offers.service import count_live_offers
from catraca.domains.rides.search import jobs as ride_jobs
from catraca.domains.scheduling import jobs as scheduling_jobs
from catraca.platform.database import timers
from catraca.platform.database.timer_runner import TimerRunner
from catraca.platform.database.timers import TimerHandlers
from catraca.platform.errors import Away, Refusal
from catraca.platform.pauses import within
from catraca.roles.consuming import consume
from catraca.roles.matchers import matcher_of
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of

LOOK_SECONDS = 5.0
# How soon an emptied Redis is noticed.
FILL_SECONDS = 1.0

PENDING = Gauge(
    "catraca_timers_pending",
    "Timers set, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)
OVERDUE = Gauge(
    "catraca_timers_overdue",
    "Timers nobody fired in time, counted up to 10 000.",
    ["kind"],
    multiprocess_mode="livemostrecent",
)

OFFERS_LIVE = Gauge(
    "catraca_ride_offers_live",
    "Offers that wait for a driver's answer.",
    multiprocess_mode="livemostrecent",
)


MATCHINGS_OPEN = Gauge(
    "catraca_matchings_open",
    "Rides a driver is looked for, counted up to 10 000.",
    multiprocess_mode="livemostrecent",
)


def timers_of(parts: Parts) -> tuple[TimerHandlers, ...]:
    """What each domain does when its timers are due."""
    return (
        ride_jobs.fires,
        geofence_jobs.fires,
        scheduling_jobs.fires,
        scheduling_jobs.waitlist_timers(parts.settings.scheduling.waitlist_offer_ttl),
        matching_timers(matcher_of(parts.settings, parts.redis)),
    )


class Dispatcher:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        timekeeper = TimerRunner(self._parts.database, timers_of(self._parts), self._parts.hands)
        await all_of(
            consume(self._parts, "dispatcher", life),
            timekeeper.run(life.stopping),
            self._watch(life),
            self._keep_drivers(life),
        )

    async def _keep_drivers(self, life: Life) -> None:
        settings = self._parts.settings
        rhythm = location.Rhythm(
            presence_timeout=settings.location.presence_timeout,
            idle_after=settings.location.idle_after,
            position_interval=settings.location.position_interval,
            edges=EdgeRules(
                pings=settings.location.community_edge_pings, dwell=settings.location.community_edge_dwell
            ),
        )
        # Twice as often as a position is due, so that none is late by more than half of that.
        every = settings.location.position_interval / 2
        keeper = Keeper(self._parts.redis, self._parts.database.run, rhythm=rhythm, patrol_interval=every)
        await all_of(
            _now_and_then(keeper.fill_map, FILL_SECONDS, life),
            _now_and_then(keeper.patrol, every.total_seconds(), life),
        )

    async def _watch(self, life: Life) -> None:
        seen: set[str] = set()
        while not life.stopping.is_set():
            try:
                async with self._parts.database.connection() as db:
                    counts = {count.kind: count for count in await timers.count_timers(db)}
                    OFFERS_LIVE.set(await count_live_offers(db))
                    MATCHINGS_OPEN.set(await matching.count_open_searches(db, up_to=timers.COUNTED_TO))
            except Refusal:
                pass  # the timekeeper itself says so
            else:
                seen |= counts.keys()
                for kind in seen:  # a kind that has none left is told as none
                    count = counts.get(timers.TimerKind(kind))
                    PENDING.labels(kind).set(count.pending if count else 0)
                    OVERDUE.labels(kind).set(count.overdue if count else 0)
            await within(LOOK_SECONDS, life.stopping)


async def _now_and_then(job: Callable[[], Awaitable[None]], seconds: float, life: Life) -> None:
    while not life.stopping.is_set():
        with suppress(Away, Refusal):  # the next time finds the same work
            await job()
        await within(seconds, life.stopping)
