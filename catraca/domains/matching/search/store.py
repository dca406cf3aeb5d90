"""SQL on matchings. A row is written only under the lock of its ride, which is taken first."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from catraca.domains.matching.search.model import Matching, Rules
from catraca.platform.database import Db
from catraca.platform.database.event_invariants import CHECKED_EVENTS
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.geo import Place, cell_of

COLUMNS = "ride_id, round, started_at, phase, search, offers, next_search_at, wake_at"


async def read_matchings(db: Db, ride_ids: Iterable[UUID]) -> dict[UUID, Matching]:
    """Return the searches of those of these rides that have one."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM matchings WHERE ride_id = ANY ($1::uuid[])",  # noqa: S608 - a constant
        list(ride_ids),
    )
    return {row["ride_id"]: Matching(**row) for row in rows}


async def save_matchings(db: Db, matchings: Sequence[tuple[Matching, Place]]) -> None:
    """Insert or update searches, each with the pickup of its ride."""
    if not matchings:
        return
    rows = [
        (
            matching.ride_id,
            matching.round,
            matching.started_at,
            matching.phase,
            matching.search,
            matching.offers,
            matching.next_search_at,
            matching.wake_at,
            pickup.lat,
            pickup.lon,
            cell_of(pickup),
        )
        for matching, pickup in matchings
    ]
    await db.execute(
        f"INSERT INTO matchings ({COLUMNS}, lat, lng, cell)"  # noqa: S608 - a constant
        " SELECT * FROM unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::text[], $5::integer[],"
        "   $6::integer[], $7::timestamptz[], $8::timestamptz[], $9::float8[], $10::float8[], $11::integer[])"
        " ON CONFLICT (ride_id) DO UPDATE SET round = EXCLUDED.round, started_at = EXCLUDED.started_at,"
        "   phase = EXCLUDED.phase, search = EXCLUDED.search, offers = EXCLUDED.offers,"
        "   next_search_at = EXCLUDED.next_search_at, wake_at = EXCLUDED.wake_at",
        *zip(*rows, strict=True),
    )


async def waiting_near(
    db: Db, place: Place, cells: Sequence[tuple[int, int]], *, rules: Rules, but: UUID | None, limit: int
) -> list[UUID]:
    """Return rides, except `but`, whose next search reaches the place; the longest waiting first."""
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


async def count_open_searches(db: Db, *, up_to: int) -> int:
    return await db.fetchval(
        "SELECT count(*) FROM (SELECT FROM matchings WHERE phase = 'searching' LIMIT $1) AS open", up_to
    )


# Events need a moment to arrive: two sweeps (20 s) at most.
INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="one search per ride",
        sentence="A ride has at most one search.",
        table="matchings",
        constraint="matchings_pkey",
        definition=("PRIMARY KEY (ride_id)",),
    ),
    ConstraintHeld(
        name="only open searches have a wake time",
        sentence="An open search has a wake time; an ended one has none.",
        table="matchings",
        constraint="only_who_searches_waits",
        definition=("wake_at IS NOT NULL", "next_search_at IS NULL"),
    ),
    Invariant(
        name="every open search has a timer",
        sentence="Every open search has a timer in the database.",
        query="SELECT m.ride_id FROM matchings m WHERE m.phase = 'searching' AND NOT EXISTS"
        " (SELECT FROM timers t WHERE t.kind = 'matching.due' AND t.subject_id = m.ride_id)",
    ),
    Invariant(
        name="every open ride has a search",
        sentence="Every open ride has an open search in its present round.",
        query="SELECT r.id FROM rides r WHERE r.status IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND r.updated_at < clock_timestamp() - interval '20 s' AND NOT EXISTS"
        " (SELECT FROM matchings m WHERE m.ride_id = r.id AND m.round = r.round AND m.phase = 'searching')",
    ),
    Invariant(
        name="no search outlives its ride",
        sentence="A ride that was accepted or has ended has no open search.",
        query="SELECT m.ride_id FROM matchings m JOIN rides r ON r.id = m.ride_id WHERE m.phase = 'searching'"
        " AND r.status NOT IN ('REQUESTED', 'SEARCHING', 'OFFERED')"
        " AND r.updated_at < clock_timestamp() - interval '20 s'",
    ),
    Invariant(
        name="every counted offer is recorded",
        sentence="An open search counts as many offers as its search records.",
        query="SELECT m.ride_id FROM matchings m WHERE m.phase = 'searching' AND m.offers <>"
        " (SELECT coalesce(sum((s.verdicts->>'offered')::integer), 0) FROM matching_searches s"
        "   WHERE s.ride_id = m.ride_id AND s.round = m.round AND s.search = m.search)",
    ),
    Invariant(
        name="every match is published",
        sentence="Every ride under way that was accepted within a day has its `ride.matched` event.",
        query="WITH published AS (SELECT aggregate_id, routing_key, headers FROM outbox UNION ALL"  # noqa: S608
        "   (SELECT aggregate_id, routing_key, headers FROM outbox_sent"
        "   WHERE sent_at > clock_timestamp() - interval '1 day'"
        f"  ORDER BY sent_at DESC LIMIT {CHECKED_EVENTS}))"
        " SELECT r.id FROM rides r WHERE r.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')"
        " AND r.accepted_at BETWEEN clock_timestamp() - interval '1 day'"
        "   AND clock_timestamp() - interval '20 s'"
        f" AND (SELECT count(*) FROM published) < {CHECKED_EVENTS}"
        " AND (r.id, r.round) NOT IN (SELECT aggregate_id, (headers->>'round')::integer FROM published"
        "   WHERE routing_key = 'ride.matched')",
    ),
)
