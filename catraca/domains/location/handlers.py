"""Measures how long positions are on their way."""

from prometheus_client import Histogram

from catraca.events import DriverUpdated
from catraca.platform.bus import Message, handlers_for
from catraca.platform.clock import now
from catraca.platform.database import Db

TRACKING_DELAY = Histogram(
    "catraca_tracking_delay_seconds",
    "From a ping of a driver on a ride to where it can be shown.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5),
)

tracking_handles = handlers_for("tracking_realtime_queue")


@tracking_handles(DriverUpdated)
async def measure_delay(db: Db, event: DriverUpdated, message: Message) -> None:
    """Shown to nobody yet: only how late it would be."""
    TRACKING_DELAY.observe(max(0.0, (now() - event.timestamp).total_seconds()))
