"""Every statement on driver_communities: drivers inside a community, or about to enter or leave it.

A statement that changes a driver's rows locks the driver's row in driver_presence. A trigger deletes the rows
of drivers who go offline.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from catraca.domains.communities import CommunityId
from catraca.domains.location.fence_crossings.model import FenceState, StateChange
from catraca.domains.location.model import DriverId
from catraca.platform.database import Db
from catraca.platform.database.invariants import Invariant, Rule, TriggerHeld

Pair = tuple[DriverId, CommunityId]


async def fence_states(
    db: Db, driver_ids: Iterable[UUID]
) -> dict[DriverId, Mapping[CommunityId, FenceState]]:
    """The states of these drivers, by driver and community."""
    rows = await db.fetch(
        "SELECT driver_id, community_id, inside, since, seen_at, crossing_since, crossing_pings"
        " FROM driver_communities WHERE driver_id = ANY ($1::uuid[])",
        list(driver_ids),
    )
    found: dict[DriverId, dict[CommunityId, FenceState]] = {}
    for row in rows:
        columns = dict(row)
        driver_id, community_id = columns.pop("driver_id"), columns.pop("community_id")
        found.setdefault(driver_id, {})[community_id] = FenceState(**columns)
    return {**found}


async def write_changes(db: Db, changes: Sequence[StateChange]) -> set[Pair]:
    """Write changes of online drivers whose state still is `before`; returns those written.

    Of two processes that write the same change, one does.
    """
    rows = await db.fetch(
        "WITH locked AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "   ORDER BY driver_id FOR NO KEY UPDATE),"
        " change AS MATERIALIZED ("
        "   SELECT n.* FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::boolean[],"
        "       $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::integer[])"
        "     AS n (driver_id, community_id, known_at,"
        "       inside, since, seen_at, crossing_since, crossing_pings)"
        "   JOIN locked USING (driver_id)),"
        " deleted AS ("
        "   DELETE FROM driver_communities c USING change n WHERE n.inside IS NULL"
        "     AND c.driver_id = n.driver_id AND c.community_id = n.community_id AND c.seen_at = n.known_at"
        "   RETURNING c.driver_id, c.community_id),"
        " updated AS ("
        "   UPDATE driver_communities c SET inside = n.inside, since = n.since, seen_at = n.seen_at,"
        "     crossing_since = n.crossing_since, crossing_pings = n.crossing_pings"
        "   FROM change n WHERE n.inside IS NOT NULL"
        "     AND c.driver_id = n.driver_id AND c.community_id = n.community_id AND c.seen_at = n.known_at"
        "   RETURNING c.driver_id, c.community_id),"
        " inserted AS ("
        "   INSERT INTO driver_communities (driver_id, community_id, inside, since, seen_at, crossing_since,"
        "     crossing_pings)"
        "   SELECT driver_id, community_id, inside, since, seen_at, crossing_since, crossing_pings"
        "   FROM change WHERE known_at IS NULL"
        "   ON CONFLICT DO NOTHING RETURNING driver_id, community_id)"
        " SELECT * FROM deleted UNION ALL SELECT * FROM updated UNION ALL SELECT * FROM inserted",
        [change.driver_id for change in changes],
        [change.community_id for change in changes],
        [change.before.seen_at if change.before else None for change in changes],
        *([columns[index] for columns in map(_columns, changes)] for index in range(5)),
    )
    return {(row["driver_id"], row["community_id"]) for row in rows}


def _columns(change: StateChange) -> tuple[object, object, object, object, object]:
    """inside, since, seen_at, crossing_since, crossing_pings: all null where the row is deleted."""
    after = change.after
    if after is None:
        return None, None, None, None, None
    return after.inside, after.since, after.seen_at, after.crossing_since, after.crossing_pings


_EVENTS = (
    "SELECT aggregate_id AS driver_id, seq, routing_key, (body->>'community_id')::uuid AS community_id"
    " FROM {} WHERE queue IS NULL AND routing_key IN ('location.driver.online',"
    "   'location.driver.entered_community', 'location.driver.left_community')"
)
INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=8,
        name="fence crossings are published",
        sentence="A driver who went online within a day is inside exactly the communities whose last event,"
        " since then, says entered.",
        query=f"WITH published AS ({_EVENTS.format('outbox')} UNION ALL {_EVENTS.format('outbox_sent')}),"  # noqa: S608
        " working AS (SELECT p.driver_id, max(e.seq) AS seq FROM driver_presence p JOIN published e"
        "               ON e.driver_id = p.driver_id AND e.routing_key = 'location.driver.online'"
        "             WHERE p.online AND p.changed_at > clock_timestamp() - interval '1 day'"
        "             GROUP BY p.driver_id),"
        " newest AS (SELECT DISTINCT ON (e.driver_id, e.community_id) e.driver_id, e.community_id,"
        "              e.routing_key = 'location.driver.entered_community' AS inside"
        "            FROM published e JOIN working a ON a.driver_id = e.driver_id AND e.seq > a.seq"
        "            ORDER BY e.driver_id, e.community_id, e.seq DESC),"
        " known AS (SELECT c.driver_id, c.community_id, c.inside"
        "           FROM driver_communities c JOIN working a ON a.driver_id = c.driver_id)"
        " SELECT driver_id, community_id FROM newest n FULL JOIN known k USING (driver_id, community_id)"
        " WHERE coalesce(n.inside, false) <> coalesce(k.inside, false)",
    ),
    TriggerHeld(
        name="offline drivers are in no community",
        sentence="The communities of an offline driver are not stored.",
        table="driver_presence",
        trigger="the_offline_are_in_no_community",
        definition=("old.online", "new.online", "DELETE FROM driver_communities"),
    ),
)
