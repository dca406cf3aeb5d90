"""Consumes driver positions in batches, and delivers them to passengers."""

from catraca.domains.location.positions.service import show_positions
from catraca.events import DriverUpdated
from catraca.platform.bus import batch_handlers

tracking = batch_handlers(
    "tracking_realtime_queue", [DriverUpdated], prepare=lambda event, _: event, write=show_positions
)
