"""HTTP forms of push subscriptions."""

from datetime import datetime
from typing import Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.notifications.push.store import Device
from catraca.platform.forms import Body, examples
from catraca.platform.web_push import Subscription

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


class PushKeysIn(Body):
    p256dh: str = Field(min_length=80, max_length=100)
    auth: str = Field(min_length=20, max_length=30)


class SubscriptionIn(BaseModel):
    """The JSON form of a browser's `PushSubscription`."""

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

    def to_subscription(self) -> Subscription:
        return Subscription(self.endpoint, self.keys.p256dh, self.keys.auth)


class DeviceOut(BaseModel):
    model_config = examples(DEVICE)

    id: UUID
    service: str = Field(description="Host name of the device's push service.")
    created_at: datetime

    @classmethod
    def of(cls, device: Device) -> Self:
        return cls(
            id=device.id, service=urlsplit(device.endpoint).hostname or "", created_at=device.created_at
        )


class DevicesOut(BaseModel):
    model_config = examples({"items": [DEVICE]})

    items: list[DeviceOut]
