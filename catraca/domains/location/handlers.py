"""Reacts to drivers coming and going, and measures how long positions are on their way."""

from prometheus_client import Histogram

from catraca.domains import people, rides
from catraca.events import DriverIdle, DriverOffline, DriverOnline, DriverUpdated
from catraca.platform.bus import Message, handlers_for
from catraca.platform.clock import now
from catraca.platform.database import Db

TRACKING_DELAY = Histogram(
    "catraca_tracking_delay_seconds",
    "From a ping of a driver on a ride to where it can be shown.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5),
)

availability_handles = handlers_for("matching_availability_queue")
tracking_handles = handlers_for("tracking_realtime_queue")


@availability_handles(DriverOffline)
async def withdraw_offers(db: Db, event: DriverOffline, message: Message) -> None:
    """Nobody waits for the answer of a driver who is gone."""
    await rides.withdraw_offers(db, people.UserId(event.driver_id))


@availability_handles(DriverOnline)
async def notice_online(db: Db, event: DriverOnline, message: Message) -> None:
    """Nothing to do as long as nothing searches by itself: drivers are found when they are looked for."""


@availability_handles(DriverIdle)
async def notice_idle(db: Db, event: DriverIdle, message: Message) -> None:
    """The same."""


@tracking_handles(DriverUpdated)
async def measure_delay(db: Db, event: DriverUpdated, message: Message) -> None:
    """Shown to nobody yet: only how late it would be."""
    TRACKING_DELAY.observe(max(0.0, (now() - event.timestamp).total_seconds()))
