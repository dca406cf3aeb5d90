"""The role that moves rides and appointments on: by events, by timers, and by where drivers are."""

from catraca.domains.billing.charges import jobs as charge_jobs
from catraca.domains.geofences.confirmations import jobs as confirmation_jobs
from catraca.domains.matching.search.jobs import matching_timers
from catraca.domains.rides.search import jobs as ride_jobs
from catraca.domains.scheduling.jobs import scheduling_timers
from catraca.platform.database.timer_runner import TimerRunner
from catraca.platform.database.timers import TimerHandlers
from catraca.roles.agents.dispatch_gauges import measure_rides, measure_timers
from catraca.roles.agents.driver_patrol import DriverPatrol
from catraca.roles.consumers import consume
from catraca.roles.domain_rules import client_limits, matcher_of
from catraca.roles.parts import Parts
from catraca.roles.runner import Life, all_of, measure


def timers_of(parts: Parts) -> tuple[TimerHandlers, ...]:
    """The handlers of all timers."""
    return (
        ride_jobs.fires,
        charge_jobs.fires,
        confirmation_jobs.fires,
        scheduling_timers(
            offer_ttl=parts.settings.scheduling.waitlist_offer_ttl,
            limits=client_limits(parts.settings.scheduling),
        ),
        matching_timers(matcher_of(parts.settings, parts.redis)),
    )


class Dispatcher:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, life: Life) -> None:
        parts = self._parts
        await all_of(
            consume(parts, "dispatcher", life),
            TimerRunner(parts.database, timers_of(parts), parts.hands).run(life.stopping),
            DriverPatrol(parts).run(life),
            measure(measure_timers, parts, life),
            measure(measure_rides, parts, life),
        )
