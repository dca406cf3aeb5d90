"""HTTP for scheduling."""

from catraca.domains.scheduling.routes import (
    availability,
    booking,
    calendars,
    holds,
    series,
    services,
    time_off,
    waiting,
    workers,
)
from catraca.domains.scheduling.routes.turns import SchedulingParts

ROUTERS = [
    workers.router,
    services.router,
    time_off.router,
    availability.router,
    booking.router,
    holds.router,
    calendars.router,
    series.router,
    waiting.router,
]

__all__ = ["ROUTERS", "SchedulingParts"]
