"""Analytics: demand by place and hour, matching times, and alerts where searches fail."""

from catraca.domains.analytics.model import AlertRule
from catraca.domains.analytics.store import INVARIANTS

__all__ = ["INVARIANTS", "AlertRule"]
