"""What the notification routes take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.notifications.model import MAX_SEQ, Notification
from catraca.domains.notifications.store.subscriptions import Device

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
    model_config = ConfigDict(json_schema_extra={"examples": [NOTIFICATION]})

    seq: int = Field(description="Counted from 1 for each person, without a gap.")
    type: str = Field(description="What it is about; the catalogue of events lists the kinds.")
    data: dict[str, Any] = Field(description="`message` is for people, in the reader's language.")
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
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [NOTIFICATION], "next": None, "unread": 1}]}
    )

    items: list[NotificationOut]
    next: int | None = Field(
        description="Ask for what follows with `before` (or `since`, if that was asked with) set to this."
    )
    unread: int = Field(description="How many are not marked as read, counted up to 1000.")

    @classmethod
    def of(cls, found: Sequence[Notification], *, limit: int, unread: int) -> Self:
        """From one more than the page takes: what is left over says that there is a next page."""
        items = [NotificationOut.of(one) for one in found[:limit]]
        return cls(items=items, next=items[-1].seq if len(found) > limit else None, unread=unread)


class ReadIn(BaseModel):
    """Some of them, or all up to a number, or both."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"up_to": 12}]})

    seqs: list[Annotated[int, Field(ge=1, le=MAX_SEQ, strict=True)]] = Field(
        default=[], max_length=200, description="These."
    )
    up_to: int = Field(default=0, ge=0, le=MAX_SEQ, strict=True, description="And all up to this number.")


class ReadOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"marked": [11, 12], "unread": 0}]})

    marked: list[int] = Field(description="Which were not marked before, at most 1000 at a time.")
    unread: int = Field(description="How many are left, counted up to 1000.")


class TicketOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ticket": "o3n0Q1m8yS2h", "expires_at": "2026-03-01T12:00:30Z"}]}
    )

    ticket: str = Field(description="For `GET /v1/ws?ticket=...`, once.")
    expires_at: datetime


DEVICE: JsonDict = {
    "id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
    "service": "fcm.googleapis.com",
    "created_at": "2026-03-01T12:00:00Z",
}


class PushKeyOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "public_key": "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
                    "AC8wEqKK6PBru3jl7A8"
                }
            ]
        }
    )

    public_key: str = Field(description="For `pushManager.subscribe`, as `applicationServerKey`.")


class PushKeysIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    p256dh: str = Field(min_length=80, max_length=100)
    auth: str = Field(min_length=20, max_length=30)


class SubscriptionIn(BaseModel):
    """What `pushManager.subscribe` answers in a browser, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "endpoint": "https://fcm.googleapis.com/fcm/send/c1KrmpTuRm8",
                    "keys": {
                        "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7"
                        "Vd8pZGH6SRpkNtoIAiw4",
                        "auth": "BTBZMqHH6r4Tts7J_aSIgg",
                    },
                }
            ]
        }
    )

    endpoint: str = Field(min_length=1, max_length=1000)
    keys: PushKeysIn


class DeviceOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [DEVICE]})

    id: UUID
    service: str = Field(description="Whose push service the device is reached by.")
    created_at: datetime

    @classmethod
    def of(cls, device: Device) -> Self:
        return cls(
            id=device.id, service=urlsplit(device.endpoint).hostname or "", created_at=device.created_at
        )


class DevicesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [DEVICE]}]})

    items: list[DeviceOut]
