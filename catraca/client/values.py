"""Values that are not in the OpenAPI document: what the client sends, and what comes over the socket."""

from datetime import datetime
from typing import Any

import msgspec

from catraca.client.models import Changes


class Ping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position of a driver, now or `at` an earlier moment."""

    lat: float
    lng: float
    at: datetime | None = None
    accuracy_meters: float | None = None
    speed: float | None = None
    heading: float | None = None


class Message(msgspec.Struct, frozen=True):
    """A message of the socket. Without a `seq` it is momentary, such as a position, and never repeated."""

    seq: int | None
    type: str
    data: dict[str, Any]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Does the passenger accept drivers from elsewhere? Until it is confirmed, there is no ride."""

    token: str
    expires_at: datetime
    message: str
    changes: Changes
