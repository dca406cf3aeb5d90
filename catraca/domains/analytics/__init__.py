"""Figures of what happened: demand by place and hour, how long matches take, and where searches fail."""

from catraca.domains.analytics.model import AlertRule
from catraca.domains.analytics.store import INVARIANTS

__all__ = ["INVARIANTS", "AlertRule"]
