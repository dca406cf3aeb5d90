"""The alert about a region where searches fail."""

from datetime import timedelta

from pydantic import Field

from catraca.settings.values import Duration, Group


class AnalyticsSettings(Group):
    failure_alert_percent: float = Field(
        default=10, ge=0, le=100, description="Share of failed searches in a region above which it alerts."
    )
    failure_alert_window: Duration = Field(
        default=timedelta(hours=1), description="Period over which searches are counted."
    )
    failure_alert_minimum: int = Field(
        default=10, ge=1, le=1_000_000, description="Smallest number of ended searches for an alert."
    )
