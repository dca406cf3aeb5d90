"""Events of notifications: a web push is due for a device."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event


class PushDue(Event, frozen=True, kw_only=True, tag="notification.push_due"):
    """A subscribed device is to get a notification by web push: one event for each device."""

    exchange = "notifications.events"
    about = "subscription_id"

    subscription_id: UUID
    user_id: Annotated[UUID, Meta(description="The recipient.")]
    seq: Annotated[int, Meta(description="Its number.", examples=[12])]
