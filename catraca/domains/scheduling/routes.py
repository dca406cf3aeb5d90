"""All routers of scheduling, for the API role."""

from catraca.domains.scheduling.agendas.routes import router as agendas
from catraca.domains.scheduling.availability.routes import router as availability
from catraca.domains.scheduling.booking.routes import router as booking
from catraca.domains.scheduling.booking_batches.routes import router as booking_batches
from catraca.domains.scheduling.calendars.routes import router as calendars
from catraca.domains.scheduling.holds.routes import router as holds
from catraca.domains.scheduling.series.routes import router as series
from catraca.domains.scheduling.shared.routes import SchedulingParts
from catraca.domains.scheduling.time_off.routes import router as time_off
from catraca.domains.scheduling.waitlist.routes import router as waitlist

ROUTERS = [
    agendas,
    time_off,
    availability,
    booking_batches,
    booking,
    holds,
    calendars,
    series,
    waitlist,
]

__all__ = ["ROUTERS", "SchedulingParts"]
