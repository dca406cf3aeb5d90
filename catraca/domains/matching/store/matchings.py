"""Every statement on matchings. A row is changed while its ride is held, which comes first."""

from collections.abc import Sequence
from uuid import UUID

from catraca.domains.location import cell_of
from catraca.domains.matching.model import Matching, Rules
from catraca.platform.database import Db
from catraca.platform.geo import Place

COLUMNS = "ride_id, round, started_at, phase, search, offers, next_search_at, wake_at"


async def read_matching(db: Db, ride_id: UUID) -> Matching | None:
    row = await db.fetchrow(f"SELECT {COLUMNS} FROM matchings WHERE ride_id = $1", ride_id)  # noqa: S608
    return None if row is None else Matching(**row)


async def save_matching(db: Db, matching: Matching, place: Place) -> None:
    """Write the row as it is from now on; `place` is where the ride begins."""
    await db.execute(
        f"INSERT INTO matchings ({COLUMNS}, lat, lng, cell)"  # noqa: S608 - our own words
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
        " ON CONFLICT (ride_id) DO UPDATE SET round = $2, started_at = $3, phase = $4, search = $5,"
        "   offers = $6, next_search_at = $7, wake_at = $8",
        matching.ride_id,
        matching.round,
        matching.started_at,
        matching.phase,
        matching.search,
        matching.offers,
        matching.next_search_at,
        matching.wake_at,
        place.lat,
        place.lon,
        cell_of(place),
    )


async def waiting_near(
    db: Db, place: Place, cells: Sequence[tuple[int, int]], *, rules: Rules, but: UUID | None, limit: int
) -> list[UUID]:
    """Rides but this one whose next search reaches as far as the place, the longest waiting first."""
    rows = await db.fetch(
        "SELECT ride_id FROM ("
        "   SELECT m.ride_id, m.started_at, least($5 + (m.search - 1) * $6, $7) AS reach,"
        "     12742018 * asin(least(1, sqrt(sind((m.lat - $3) / 2) ^ 2"
        "       + cosd($3) * cosd(m.lat) * sind((m.lng - $4) / 2) ^ 2))) AS meters"
        "   FROM unnest($1::integer[], $2::integer[]) AS span (first, last)"
        "   JOIN matchings m ON m.phase = 'searching' AND m.next_search_at IS NOT NULL"
        "     AND m.cell BETWEEN span.first AND span.last) AS waiting"
        " WHERE meters <= reach AND ride_id IS DISTINCT FROM $8 ORDER BY started_at LIMIT $9",
        [first for first, _ in cells],
        [last for _, last in cells],
        place.lat,
        place.lon,
        rules.initial_radius_meters,
        rules.radius_increment_meters,
        rules.max_radius_meters,
        but,
        limit,
    )
    return [row["ride_id"] for row in rows]


async def count_open(db: Db, *, up_to: int) -> int:
    return await db.fetchval(
        "SELECT count(*) FROM (SELECT FROM matchings WHERE phase = 'searching' LIMIT $1) AS open", up_to
    )
