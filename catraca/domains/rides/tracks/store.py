"""The rows of ride_tracks."""

from collections.abc import Sequence
from datetime import timedelta

from catraca.domains.rides.model import RideId
from catraca.domains.rides.tracks.model import Track, TrackPoint
from catraca.platform.database import Db
from catraca.platform.geo import EARTH_RADIUS_METERS

# After a longer pause between two positions the driver may have taken any way.
LONGEST_GAP = timedelta(minutes=1)


async def add_points(db: Db, points: Sequence[TrackPoint]) -> None:
    """Add positions to the tracks of started rides without a destination; other drivers are left out.

    Rides locked by other transactions are skipped: they may be ending, and an ended ride has no track.
    """
    await db.execute(
        f"""
        INSERT INTO ride_tracks AS t (ride_id, lat, lng, position_at)
        SELECT r.id, p.lat, p.lng, p.at
        FROM unnest($1::uuid[], $2::float8[], $3::float8[], $4::timestamptz[])
          AS p (driver_id, lat, lng, at)
        JOIN rides r ON r.accepted_driver_id = p.driver_id AND r.status = 'STARTED'
          AND r.distance_meters IS NULL AND r.started_at <= p.at
        ORDER BY r.id FOR SHARE OF r SKIP LOCKED
        ON CONFLICT (ride_id) DO UPDATE SET
          lat = EXCLUDED.lat, lng = EXCLUDED.lng, position_at = EXCLUDED.position_at,
          meters = t.meters + 2 * {EARTH_RADIUS_METERS} * asin(sqrt(least(1,
            sin(radians(EXCLUDED.lat - t.lat) / 2) ^ 2
            + cos(radians(t.lat)) * cos(radians(EXCLUDED.lat))
              * sin(radians(EXCLUDED.lng - t.lng) / 2) ^ 2))),
          covered_seconds = t.covered_seconds + CASE WHEN EXCLUDED.position_at - t.position_at <= $5
            THEN extract(epoch FROM EXCLUDED.position_at - t.position_at) ELSE 0 END
        WHERE t.position_at < EXCLUDED.position_at
        """,  # noqa: S608 - a number of ours
        [point.driver_id for point in points],
        [point.lat for point in points],
        [point.lng for point in points],
        [point.at for point in points],
        LONGEST_GAP,
    )


async def take_track(db: Db, ride_id: RideId) -> Track:
    """Delete and return the track of a locked ride; an empty one if there is none."""
    row = await db.fetchrow(
        "DELETE FROM ride_tracks WHERE ride_id = $1 RETURNING meters, covered_seconds", ride_id
    )
    return Track() if row is None else Track(**row)
