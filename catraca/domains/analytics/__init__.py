"""Figures of what happened: demand by place and hour, how long matches take, and where searches fail."""

from catraca.domains.analytics.model import AlertRule

__all__ = ["AlertRule"]
