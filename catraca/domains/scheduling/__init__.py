"""Scheduling: agendas that cannot overlap, and what is free in them, computed when asked."""

from catraca.domains.scheduling.model.agendas import Names, ServiceId, Terms
from catraca.domains.scheduling.model.hours import Rule
from catraca.domains.scheduling.model.zones import TZDATA_VERSION, zone
from catraca.domains.scheduling.service.auditing import Moved, moved_by_rules_of_time
from catraca.domains.scheduling.service.booking import BookingRules
from catraca.domains.scheduling.service.opening import NewWorker, open_service
from catraca.domains.scheduling.service.personal import PERSONAL_DATA
from catraca.domains.scheduling.store.invariants import INVARIANTS
from catraca.domains.scheduling.store.names import names_of

__all__ = [
    "INVARIANTS",
    "PERSONAL_DATA",
    "TZDATA_VERSION",
    "BookingRules",
    "Moved",
    "Names",
    "NewWorker",
    "Rule",
    "ServiceId",
    "Terms",
    "moved_by_rules_of_time",
    "names_of",
    "open_service",
    "zone",
]
