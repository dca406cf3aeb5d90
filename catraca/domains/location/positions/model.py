"""The position of a ride's driver, as its passenger sees it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

import msgspec

# Older positions are dropped on their way; counted from when the server received the ping.
SHOWN_WITHIN: Final = timedelta(seconds=5)


class ShownPosition(msgspec.Struct, frozen=True, array_like=True):
    ride_id: UUID
    passenger_id: UUID
    driver_id: UUID
    lat: float
    lng: float
    # The time of the position by the driver's clock; `taken_at` is the server's when it received the ping.
    updated_at: datetime
    heading_degrees: float | None
    speed_mps: float | None
    taken_at: datetime

    def supersedes(self, other: Self | None) -> bool:
        """True if it is newer than `other`, of the same ride. Positions may overtake each other."""
        if other is None:
            return True
        if other.driver_id != self.driver_id:
            return self.taken_at > other.taken_at  # The clocks of two phones cannot be compared.
        return (self.updated_at, self.taken_at) > (other.updated_at, other.taken_at)

    def is_stale(self, now: datetime) -> bool:
        return now - self.taken_at > SHOWN_WITHIN


def encode_positions(positions: Sequence[ShownPosition]) -> bytes:
    return _encoder.encode(positions)


def decode_positions(data: bytes) -> list[ShownPosition]:
    return _decoder.decode(data)


_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(list[ShownPosition])
