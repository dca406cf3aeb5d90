"""The reads of a search for drivers. One statement each, over the tables of three domains: they run for every
search, and a trip to the database costs more than the rows.
"""

from collections.abc import Iterable
from uuid import UUID

from catraca.domains.location.nearby.model import Unavailable
from catraca.platform.database import Db


async def online_drivers(db: Db, driver_ids: Iterable[UUID]) -> dict[UUID, Unavailable | None]:
    """The drivers of these who are online, each with the reason why not available, or None.

    The reasons are those of `rides.busy_drivers` and `people.may_drive`.
    """
    rows = await db.fetch(
        """
        -- Subqueries instead of joins: PostgreSQL plans this for each call, and plans joins for longer.
        SELECT p.driver_id, coalesce(
          (SELECT CASE WHEN o.response IS NULL THEN 'held' ELSE 'driving' END FROM ride_offers o
           WHERE o.driver_id = p.driver_id AND o.held
             AND (o.response = 'ACCEPTED' OR o.expires_at > clock_timestamp())),
          CASE
            WHEN (SELECT d.approval FROM drivers d WHERE d.user_id = p.driver_id) IS DISTINCT FROM 'approved'
              OR (SELECT u.erased_at FROM users u WHERE u.id = p.driver_id) IS NOT NULL
            THEN 'may_not_drive' END) AS unavailable
        FROM driver_presence p WHERE p.driver_id = ANY ($1::uuid[]) AND p.online
        """,
        list(driver_ids),
    )
    return {row["driver_id"]: row["unavailable"] for row in rows}


async def members_of(db: Db, community_ids: Iterable[UUID], *, limit: int) -> set[UUID]:
    """Drivers inside one of these communities, or based in one, online or not; at most `limit`."""
    rows = await db.fetch(
        """
        SELECT driver_id FROM driver_communities WHERE community_id = ANY ($1::uuid[]) AND inside
        UNION SELECT user_id FROM drivers WHERE home_community_id = ANY ($1::uuid[])
        LIMIT $2
        """,
        list(community_ids),
        limit,
    )
    return {row["driver_id"] for row in rows}
