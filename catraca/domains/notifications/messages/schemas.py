"""HTTP forms of notifications."""

from datetime import datetime
from typing import Annotated, Any, Self

import msgspec
from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.notifications.model import MAX_SEQ, Notification
from catraca.platform.forms import Body, examples

NOTIFICATION: JsonDict = {
    "seq": 12,
    "type": "ride.accepted",
    "data": {
        "ride_id": "0198a7ef-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
        "message": "Um motorista aceitou sua corrida!",
        "driver_id": "0198a7ef-0000-7c3d-8e4f-5a6b7c8d9e0f",
        "eta_seconds": 300,
    },
    "created_at": "2026-03-01T12:00:00Z",
    "read_at": None,
}


class NotificationOut(BaseModel):
    model_config = examples(NOTIFICATION)

    seq: int = Field(description="Counted from 1 for each user, without gaps.")
    type: str = Field(description="The kind; the catalogue of events lists all kinds.")
    data: dict[str, Any] = Field(description="`message` is a text in the reader's language.")
    created_at: datetime
    read_at: datetime | None

    @classmethod
    def of(cls, one: Notification) -> Self:
        return cls(
            seq=one.seq,
            type=one.type,
            data=msgspec.json.decode(one.data, type=dict[str, Any]),
            created_at=one.created_at,
            read_at=one.read_at,
        )


class NotificationPage(BaseModel):
    model_config = examples({"items": [NOTIFICATION], "next": None, "unread": 1})

    items: list[NotificationOut]
    next: int | None = Field(
        description="Value of `before` (or `since`, if that was given) for the next page; null on the last."
    )
    unread: int = Field(description="Number of unread notifications, counted up to 1000.")


class ReadIn(Body):
    """Numbers to mark as read, all up to a number, or both."""

    model_config = examples({"up_to": 12})

    seqs: list[Annotated[int, Field(ge=1, le=MAX_SEQ, strict=True)]] = Field(
        default=[], max_length=200, description="Numbers to mark."
    )
    up_to: int = Field(
        default=0, ge=0, le=MAX_SEQ, strict=True, description="Mark all up to this number too."
    )


class ReadOut(BaseModel):
    model_config = examples({"marked": [11, 12], "unread": 0})

    marked: list[int] = Field(description="Numbers that were unread before, at most 1000 at a time.")
    unread: int = Field(description="Number of unread notifications left, counted up to 1000.")
