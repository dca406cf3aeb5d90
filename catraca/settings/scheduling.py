"""Appointments: holds, waitlist, reminders, walk-ins."""

from datetime import timedelta

from pydantic import Field

from catraca.settings.values import Duration, Group, Retention


class SchedulingSettings(Group):
    hold_ttl: Duration = Field(default=timedelta(minutes=5), description="Lifetime of a client's hold.")
    max_holds: int = Field(default=3, ge=1, le=100, description="Number of holds one client may have.")
    max_upcoming_appointments: int = Field(
        default=20, ge=1, le=1000, description="Number of upcoming appointments and holds of one client."
    )
    max_upcoming_in_series: int = Field(
        default=12, ge=1, le=1000, description="How many of them may be in series."
    )
    waitlist_offer_ttl: Duration = Field(
        default=timedelta(minutes=15),
        description="Time the first client of the waitlist has to accept a free slot.",
    )
    appointment_reminder: Duration = Field(
        default=timedelta(hours=24), description="Time between the reminder and the appointment."
    )
    walk_in_retention: Retention = Field(
        default=timedelta(days=365),
        description="How long name and contact of a client without an account are kept.",
    )
