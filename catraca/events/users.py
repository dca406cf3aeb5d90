"""What is told about people: that they are there. Who they are stays in the people domain."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event


class UserCreated(Event, frozen=True, kw_only=True, tag="user.created"):
    """Somebody is known from now on, by a first token or by signing up."""

    exchange = "users.events"
    about = "user_id"

    user_id: UUID
    roles: Annotated[
        tuple[str, ...], Meta(description="What the person may do, for a start.", examples=[["passenger"]])
    ]
