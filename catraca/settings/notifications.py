"""Messages to people, and web push."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from catraca.platform.web_push import PUSH_SERVICES
from catraca.settings.values import COMMAS, Group, Retention


class NotificationSettings(Group):
    notification_retention: Retention = Field(
        default=timedelta(days=30),
        description="How long notifications are kept; a device that is offline for longer misses some.",
    )
    push_contact: str | None = Field(
        default=None,
        pattern="^(mailto:|https:).+",
        description="Contact for push services, mailto: or https:; unset: no web push.",
    )
    push_hosts: Annotated[list[str], *COMMAS] = Field(
        default_factory=lambda: list(PUSH_SERVICES),
        description="Push services that devices may name.",
    )
