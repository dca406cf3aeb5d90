"""Scheduling: agendas without overlaps, free slots computed per request, bookings."""

from catraca.domains.scheduling.agendas.model import NewWorker, ServiceTerms
from catraca.domains.scheduling.agendas.service import (
    find_workers_of_unknown_places,
    names_of,
    open_service,
)
from catraca.domains.scheduling.calendar_math.hours import WeeklyRule
from catraca.domains.scheduling.calendar_math.zones import TZDATA_VERSION, zone
from catraca.domains.scheduling.personal_data.service import PERSONAL_DATA
from catraca.domains.scheduling.shared.model import BookingRules, ClientLimits, Names, ServiceId
from catraca.domains.scheduling.store import INVARIANTS
from catraca.domains.scheduling.time_zone_audit.service import (
    ShiftedAppointment,
    find_shifted_appointments,
)

__all__ = [
    "INVARIANTS",
    "PERSONAL_DATA",
    "TZDATA_VERSION",
    "BookingRules",
    "ClientLimits",
    "Names",
    "NewWorker",
    "ServiceId",
    "ServiceTerms",
    "ShiftedAppointment",
    "WeeklyRule",
    "find_shifted_appointments",
    "find_workers_of_unknown_places",
    "names_of",
    "open_service",
    "zone",
]
