"""Events of users: ids and roles only. Names and addresses stay in the people domain."""

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event


class UserCreated(Event, frozen=True, kw_only=True, tag="user.created"):
    """A user was added, by a first token or by a sign-up."""

    exchange = "users.events"
    about = "user_id"

    user_id: UUID
    roles: Annotated[
        tuple[str, ...], Meta(description="The first roles of the user.", examples=[["passenger"]])
    ]
    signed_up: Annotated[bool, Meta(description="True if the user signed up.")] = False


class UserEmailChangeRequested(Event, frozen=True, kw_only=True, tag="user.email_change_requested"):
    """A user asked for another e-mail address. One event for each letter that is due."""

    exchange = "users.events"
    about = "user_id"

    user_id: UUID
    change_id: Annotated[UUID, Meta(description="The change; a newer one replaces it.")]
    letter: Annotated[
        Literal["code", "notice"],
        Meta(description="The code for the new address, or a notice to the present one."),
    ]


class UserRejected(Event, frozen=True, kw_only=True, tag="user.rejected"):
    """A sign-up was rejected."""

    exchange = "users.events"
    about = "user_id"

    user_id: Annotated[UUID, Meta(description="The id that the sign-up returned.")]
    reason: Annotated[
        Literal["email_taken", "id_taken", "discarded"],
        Meta(description="The reason, as `GET /v1/users/{id}/status` returns it."),
    ]
