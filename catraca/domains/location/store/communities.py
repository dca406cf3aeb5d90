"""Every statement on driver_communities: which communities drivers are in, and who is about to cross an edge.

Whoever changes a driver's rows holds the driver's row in driver_presence. A trigger drops those of drivers
who go offline.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.communities import CommunityId, Whereabouts
from catraca.domains.location.model import DriverId
from catraca.platform.database import Db
from catraca.platform.database.invariants import Invariant, Rule, TriggerHeld

Pair = tuple[DriverId, CommunityId]


async def inside_among(db: Db, driver_ids: Iterable[UUID], community_ids: Iterable[UUID]) -> set[UUID]:
    """Those of the drivers who are in one of these communities."""
    rows = await db.fetch(
        "SELECT DISTINCT driver_id FROM driver_communities"
        " WHERE driver_id = ANY ($1::uuid[]) AND community_id = ANY ($2::uuid[]) AND inside",
        list(driver_ids),
        list(community_ids),
    )
    return {row["driver_id"] for row in rows}


async def drivers_inside(db: Db, community_ids: Iterable[UUID], *, limit: int) -> list[DriverId]:
    rows = await db.fetch(
        "SELECT DISTINCT driver_id FROM driver_communities WHERE community_id = ANY ($1::uuid[]) AND inside"
        " LIMIT $2",
        list(community_ids),
        limit,
    )
    return [row["driver_id"] for row in rows]


async def whereabouts_of(
    db: Db, driver_ids: Iterable[UUID]
) -> dict[DriverId, Mapping[CommunityId, Whereabouts]]:
    """Where those of the drivers are who are in some community, or about to enter one."""
    rows = await db.fetch(
        "SELECT driver_id, community_id, inside, since, seen_at, crossing_since, crossing_pings"
        " FROM driver_communities WHERE driver_id = ANY ($1::uuid[])",
        list(driver_ids),
    )
    found: dict[DriverId, dict[CommunityId, Whereabouts]] = {}
    for row in rows:
        columns = dict(row)
        driver_id, community_id = columns.pop("driver_id"), columns.pop("community_id")
        found.setdefault(driver_id, {})[community_id] = Whereabouts(**columns)
    return {**found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What was known of a driver and a community, and what is from now on; None: nothing."""

    driver_id: DriverId
    community_id: CommunityId
    before: Whereabouts | None
    after: Whereabouts | None

    @property
    def entered(self) -> bool:
        return self._now_inside and not self._was_inside

    @property
    def left(self) -> bool:
        return self._was_inside and not self._now_inside

    @property
    def _was_inside(self) -> bool:
        return self.before is not None and self.before.inside

    @property
    def _now_inside(self) -> bool:
        return self.after is not None and self.after.inside


async def write_changes(db: Db, changes: Sequence[Change]) -> set[Pair]:
    """Make these changes, but for drivers who are offline and for what somebody else has changed since.

    Answers which were made. Of two who settle the same sighting, one makes the change.
    """
    rows = await db.fetch(
        "WITH held AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "   ORDER BY driver_id FOR NO KEY UPDATE),"
        " news AS MATERIALIZED ("
        "   SELECT n.* FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::boolean[],"
        "       $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::integer[])"
        "     AS n (driver_id, community_id, known_at,"
        "       inside, since, seen_at, crossing_since, crossing_pings)"
        "   JOIN held USING (driver_id)),"
        " gone AS ("
        "   DELETE FROM driver_communities c USING news n WHERE n.inside IS NULL"
        "     AND c.driver_id = n.driver_id AND c.community_id = n.community_id AND c.seen_at = n.known_at"
        "   RETURNING c.driver_id, c.community_id),"
        " changed AS ("
        "   UPDATE driver_communities c SET inside = n.inside, since = n.since, seen_at = n.seen_at,"
        "     crossing_since = n.crossing_since, crossing_pings = n.crossing_pings"
        "   FROM news n WHERE n.inside IS NOT NULL"
        "     AND c.driver_id = n.driver_id AND c.community_id = n.community_id AND c.seen_at = n.known_at"
        "   RETURNING c.driver_id, c.community_id),"
        " made AS ("
        "   INSERT INTO driver_communities (driver_id, community_id, inside, since, seen_at, crossing_since,"
        "     crossing_pings)"
        "   SELECT driver_id, community_id, inside, since, seen_at, crossing_since, crossing_pings"
        "   FROM news WHERE known_at IS NULL"
        "   ON CONFLICT DO NOTHING RETURNING driver_id, community_id)"
        " SELECT * FROM gone UNION ALL SELECT * FROM changed UNION ALL SELECT * FROM made",
        [change.driver_id for change in changes],
        [change.community_id for change in changes],
        [change.before.seen_at if change.before else None for change in changes],
        *([columns[index] for columns in map(_columns, changes)] for index in range(5)),
    )
    return {(row["driver_id"], row["community_id"]) for row in rows}


def _columns(change: Change) -> tuple[object, object, object, object, object]:
    """inside, since, seen_at, crossing_since, crossing_pings: nulls, where the row is to go."""
    now = change.after
    if now is None:
        return None, None, None, None, None
    return now.inside, now.since, now.seen_at, now.crossing_since, now.crossing_pings


_TOLD = (
    "SELECT aggregate_id AS driver_id, seq, routing_key, (body->>'community_id')::uuid AS community_id"
    " FROM {} WHERE queue IS NULL AND routing_key IN ('location.driver.online',"
    "   'location.driver.entered_community', 'location.driver.left_community')"
)
INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=8,
        name="whoever entered a community or left it was told of",
        sentence="Drivers who came to work within a day are in those communities which they were last told"
        " to have entered since.",
        query=f"WITH told AS ({_TOLD.format('outbox')} UNION ALL {_TOLD.format('outbox_sent')}),"  # noqa: S608
        " at_work AS (SELECT p.driver_id, max(t.seq) AS seq FROM driver_presence p JOIN told t"
        "               ON t.driver_id = p.driver_id AND t.routing_key = 'location.driver.online'"
        "             WHERE p.online AND p.changed_at > clock_timestamp() - interval '1 day'"
        "             GROUP BY p.driver_id),"
        " newest AS (SELECT DISTINCT ON (t.driver_id, t.community_id) t.driver_id, t.community_id,"
        "              t.routing_key = 'location.driver.entered_community' AS inside"
        "            FROM told t JOIN at_work a ON a.driver_id = t.driver_id AND t.seq > a.seq"
        "            ORDER BY t.driver_id, t.community_id, t.seq DESC),"
        " known AS (SELECT c.driver_id, c.community_id, c.inside"
        "           FROM driver_communities c JOIN at_work a ON a.driver_id = c.driver_id)"
        " SELECT driver_id, community_id FROM newest n FULL JOIN known k USING (driver_id, community_id)"
        " WHERE coalesce(n.inside, false) <> coalesce(k.inside, false)",
    ),
    TriggerHeld(
        name="the offline are in no community",
        sentence="Which communities a driver is in who is not at work is not kept.",
        table="driver_presence",
        trigger="the_offline_are_in_no_community",
        definition=("old.online", "new.online", "DELETE FROM driver_communities"),
    ),
)
