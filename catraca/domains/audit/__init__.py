"""The audit log: actions of operators and events, with actor, subject and time; ids only."""

from catraca.domains.audit.model import ACTION_PATTERN, Entry, Filter
from catraca.domains.audit.service import PERSONAL_DATA, find_entries

__all__ = ["ACTION_PATTERN", "PERSONAL_DATA", "Entry", "Filter", "find_entries"]
