"""The reads of a search for drivers. One statement each, over the tables of three domains: they run for every
search, and a trip to the database costs more than the rows.
"""

from collections.abc import Iterable
from uuid import UUID

from catraca.domains import people, rides
from catraca.domains.location.nearby.model import Unavailable
from catraca.platform.database import Db


async def online_drivers(db: Db, driver_ids: Iterable[UUID]) -> dict[UUID, Unavailable | None]:
    """The drivers of these who are online, each with the reason why not available, or None."""
    rows = await db.fetch(
        f"""
        SELECT p.driver_id, coalesce(
          (SELECT CASE WHEN o.response IS NULL THEN 'held' ELSE 'driving' END FROM ride_offers o
           WHERE o.driver_id = p.driver_id AND {rides.MAKES_BUSY}),
          CASE WHEN NOT {people.MAY_DRIVE} THEN 'may_not_drive' END) AS unavailable
        -- In a subquery, which hides the array's length: else PostgreSQL plans this anew for each call.
        FROM driver_presence p WHERE p.driver_id = ANY (ARRAY(SELECT unnest($1::uuid[]))) AND p.online
        """,  # noqa: S608 - constants only
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
