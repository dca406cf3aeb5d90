"""Messages from clients, and the newest position of each ride."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from catraca.domains.location import ShownPosition
from catraca.domains.notifications.sockets.errors import MessageMalformed

MAX_MESSAGE_ID_CHARACTERS = 64
MAX_RIDES = 10_000


class ClientMessage(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None


_decode_message = msgspec.json.Decoder(ClientMessage).decode


def decode_message(frame: str) -> ClientMessage:
    """Raises `MessageMalformed`."""
    try:
        message = _decode_message(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageMalformed(
            reason="wrong_shape" if isinstance(error, msgspec.ValidationError) else "malformed_json"
        ) from error
    if message.id is not None and len(message.id) > MAX_MESSAGE_ID_CHARACTERS:
        raise MessageMalformed(reason="text_too_long")
    return message


class LatestPositions:
    """The newest position of each ride. Positions can arrive out of order."""

    def __init__(self) -> None:
        self._latest: dict[UUID, ShownPosition] = {}

    def updates(
        self, positions: Sequence[ShownPosition], *, at: datetime
    ) -> Iterator[tuple[ShownPosition, bytes]]:
        """Yield the positions to show, each with its frame; drop stale and superseded ones."""
        for position in positions:
            if position.is_stale(at) or not position.supersedes(self._latest.get(position.ride_id)):
                continue
            self._store(position)
            yield position, _frame(position)

    def _store(self, position: ShownPosition) -> None:
        self._latest.pop(position.ride_id, None)
        self._latest[position.ride_id] = position
        if len(self._latest) > MAX_RIDES:
            del self._latest[next(iter(self._latest))]


def _frame(position: ShownPosition) -> bytes:
    data = {
        "ride_id": position.ride_id,
        "driver_id": position.driver_id,
        "lat": position.lat,
        "lng": position.lng,
        "updated_at": position.updated_at,
        "heading_degrees": position.heading_degrees,
        "speed_mps": position.speed_mps,
    }
    return msgspec.json.encode({"type": "position", "data": data})
