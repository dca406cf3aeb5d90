"""Measure the way of started rides."""

from collections.abc import Sequence

from catraca.domains.rides.tracks import store
from catraca.domains.rides.tracks.model import TrackPoint
from catraca.platform.database import Db


async def extend_tracks(db: Db, points: Sequence[TrackPoint]) -> None:
    """Add drivers' positions to the tracks of their started rides. A repeated position changes nothing."""
    if points:
        await store.add_points(db, points)
