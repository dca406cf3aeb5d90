"""The audit log: what was done to what, by whom and when, and what happened; bodies stay where they are."""

from catraca.domains.audit.model import ACTION_PATTERN, Entry, Filter
from catraca.domains.audit.service import PERSONAL_DATA, find_entries

__all__ = ["ACTION_PATTERN", "PERSONAL_DATA", "Entry", "Filter", "find_entries"]
