"""What is told about people: that they are there. Who they are stays in the people domain."""

from typing import Annotated, Literal
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
    signed_up: Annotated[bool, Meta(description="Whether it was by signing up.")] = False


class UserRejected(Event, frozen=True, kw_only=True, tag="user.rejected"):
    """A sign-up that was taken could not become a person."""

    exchange = "users.events"
    about = "user_id"

    user_id: Annotated[UUID, Meta(description="The id the sign-up was answered with.")]
    reason: Annotated[
        Literal["email_taken", "id_taken", "discarded"],
        Meta(description="Why: as `GET /v1/users/{id}/status` tells it."),
    ]
