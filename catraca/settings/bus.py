"""Events and messages: how long they are kept."""

from datetime import timedelta

from pydantic import Field

from catraca.settings.values import Duration, Group, Retention


class BusSettings(Group):
    outbox_retention: Retention = Field(
        default=timedelta(days=7), description="How long published events are kept in the outbox."
    )
    dead_letter_retention: Duration = Field(
        default=timedelta(days=30), description="How long dead letters are kept for an operator."
    )

    @property
    def inbox_retention(self) -> timedelta:
        """One day more than dead letters: a replayed dead letter that was applied before is still known."""
        return self.dead_letter_retention + timedelta(days=1)
