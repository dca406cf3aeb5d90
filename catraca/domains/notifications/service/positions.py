"""Which positions are still worth showing: the newest of each ride, and none that is old."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from catraca.domains.location import ShownPosition

RIDES_REMEMBERED = 10_000


class PositionBoard:
    """Remembers the last position of each ride; on their way they may overtake each other."""

    def __init__(self) -> None:
        self._last: dict[UUID, ShownPosition] = {}

    def news(
        self, positions: Sequence[ShownPosition], *, at: datetime
    ) -> Iterator[tuple[ShownPosition, str]]:
        """Those to show, each with its frame."""
        for position in positions:
            if position.is_stale(at) or not position.supersedes(self._last.get(position.ride_id)):
                continue
            self._remember(position)
            yield position, _frame(position)

    def _remember(self, position: ShownPosition) -> None:
        self._last.pop(position.ride_id, None)
        self._last[position.ride_id] = position
        if len(self._last) > RIDES_REMEMBERED:
            del self._last[next(iter(self._last))]


def _frame(position: ShownPosition) -> str:
    data = {
        "ride_id": position.ride_id,
        "driver_id": position.driver_id,
        "lat": position.lat,
        "lng": position.lng,
        "updated_at": position.updated_at,
        "heading_degrees": position.heading_degrees,
        "speed_mps": position.speed_mps,
    }
    return msgspec.json.encode({"type": "position", "data": data}).decode()
