"""Events: past-tense facts with a routing key, complete enough to act on.

Each is a frozen type in `catraca/events`. Its body is flat JSON with `event_type` and `timestamp`; its other
data are headers of the message (`platform/bus/message.py`).
"""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

import msgspec

from catraca.platform.clock import now


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event_type"):
    """A subclass sets `tag`, its routing key, `exchange`, and `about`, the field with its aggregate's id."""

    exchange: ClassVar[str]
    about: ClassVar[str]
    # Incremented when the meaning of a field changes, not for a new optional field.
    version: ClassVar[int] = 1

    timestamp: datetime = msgspec.field(default_factory=now)

    @property
    def aggregate_id(self) -> UUID:
        return getattr(self, self.about)


def key_of(kind: type[Event]) -> str:
    """The routing key, which is also the body's `event_type`."""
    tag = kind.__struct_config__.tag
    # Without a tag, msgspec uses the name of the class.
    assert isinstance(tag, str) and tag != kind.__name__, f"{kind.__name__} needs a tag"  # noqa: PT018
    return tag


def encode(event: Event) -> bytes:
    return _encoder.encode(event)


_encoder = msgspec.json.Encoder()
