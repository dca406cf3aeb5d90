"""From where a driver on a ride is to the passenger who wants to see it; many at a time."""

from catraca.domains.location.service.showing import show_positions
from catraca.events import DriverUpdated
from catraca.platform.bus import batch_handlers

tracking = batch_handlers(
    "tracking_realtime_queue", [DriverUpdated], prepare=lambda event, _: event, write=show_positions
)
