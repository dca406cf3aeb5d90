"""Making and answering offers. The ride's row is locked when its offers change."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Offer, OfferId, Response, RideId
from catraca.domains.rides.offers.model import BusyDriver
from catraca.domains.rides.search.store import COLUMNS, in_order
from catraca.platform.database import Db

# A condition on offers: the driver has the ride or may accept it. A lapsed offer does not count: making the
# next offer ends it first.
MAKES_BUSY = "held AND (response = 'ACCEPTED' OR expires_at > clock_timestamp())"


async def insert_offers(
    db: Db, wanted: Sequence[tuple[OfferId, RideId, UserId]], *, ttl: timedelta
) -> list[Offer]:
    """Insert an offer of an open ride for each free driver who has not given this ride up.

    The unique index on held offers decides which drivers are free.
    """
    rows = await db.fetch(
        f"""
        WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at),
        wanted AS (
          SELECT w.*, row_number() OVER (PARTITION BY w.ride_id ORDER BY w.place) AS number
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS w (id, ride_id, driver_id, place)
          WHERE NOT EXISTS (SELECT FROM ride_offers o WHERE o.driver_id = w.driver_id AND o.held)
          AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = w.ride_id AND o.driver_id = w.driver_id
            AND o.response = 'ACCEPTED'))
        INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, offered_at, expires_at)
        SELECT w.id, r.id, w.driver_id, r.round,
          w.number + (SELECT coalesce(max(attempt), 0) FROM ride_offers WHERE ride_id = r.id),
          moment.at, least(moment.at + $4::interval, r.deadline_at)
        FROM wanted w JOIN rides r ON r.id = w.ride_id CROSS JOIN moment
        WHERE r.status IN ('REQUESTED', 'SEARCHING', 'OFFERED') AND r.deadline_at > moment.at
        -- In one order, so that two transactions with the same drivers cannot deadlock.
        ORDER BY w.driver_id
        ON CONFLICT (driver_id) WHERE held DO NOTHING RETURNING {COLUMNS}
        """,  # noqa: S608 - constants only
        [offer_id for offer_id, _, _ in wanted],
        [ride_id for _, ride_id, _ in wanted],
        [driver_id for _, _, driver_id in wanted],
        ttl,
    )
    return in_order(rows)


async def close_gaps(db: Db, ride_id: RideId) -> dict[UUID, int]:
    """Renumber the ride's offers without gaps; return the new numbers of those that changed.

    A driver refused by the unique index used a number, and only offers of this transaction follow it.
    """
    rows = await db.fetch(
        """
        UPDATE ride_offers o SET attempt = counted.place
        FROM (SELECT id, row_number() OVER (ORDER BY attempt) AS place
          FROM ride_offers WHERE ride_id = $1) AS counted
        WHERE o.id = counted.id AND o.attempt <> counted.place RETURNING o.id, o.attempt
        """,
        ride_id,
    )
    return {row["id"]: row["attempt"] for row in rows}


async def rides_with_lapsed_offers(db: Db, driver_ids: Iterable[UUID]) -> list[RideId]:
    """Return the rides of which these drivers have a lapsed offer that is not ended yet."""
    rows = await db.fetch(
        "SELECT ride_id FROM ride_offers WHERE driver_id = ANY ($1::uuid[]) AND held"
        " AND response IS NULL AND expires_at <= clock_timestamp()",
        list(driver_ids),
    )
    return [row["ride_id"] for row in rows]


async def rides_offered_to(db: Db, driver_id: UserId) -> list[RideId]:
    """Return the rides of which the driver has a live offer."""
    rows = await db.fetch(
        "SELECT ride_id FROM ride_offers WHERE driver_id = $1 AND held AND response IS NULL", driver_id
    )
    return [row["ride_id"] for row in rows]


async def answer_offer(
    db: Db, ride_id: RideId, driver_id: UserId, response: Response, *, reason: str | None
) -> Offer | None:
    """End a live offer other than by acceptance; None if the driver has no live offer in time."""
    row = await db.fetchrow(
        "UPDATE ride_offers SET response = $3, responded_at = clock_timestamp(), held = false, reason = $4"  # noqa: S608
        " WHERE ride_id = $1 AND driver_id = $2 AND response IS NULL AND expires_at > clock_timestamp()"
        f" RETURNING {COLUMNS}",
        ride_id,
        driver_id,
        response,
        reason,
    )
    return None if row is None else Offer(**row)


async def busy_drivers(db: Db, driver_ids: Iterable[UUID]) -> dict[UUID, BusyDriver]:
    rows = await db.fetch(
        "SELECT driver_id, ride_id, response IS NOT NULL AS driving FROM ride_offers"  # noqa: S608
        f" WHERE driver_id = ANY ($1::uuid[]) AND {MAKES_BUSY}",
        list(driver_ids),
    )
    return {row["driver_id"]: BusyDriver(row["ride_id"], row["driving"]) for row in rows}


async def open_offers(db: Db, offer_ids: Iterable[UUID]) -> set[UUID]:
    rows = await db.fetch(
        "SELECT id FROM ride_offers WHERE id = ANY ($1::uuid[]) AND response IS NULL"
        " AND expires_at > clock_timestamp()",
        list(offer_ids),
    )
    return {row["id"] for row in rows}


async def insert_receipts(db: Db, offer_ids: Iterable[UUID]) -> list[tuple[Offer, datetime]]:
    """Record that these offers were received; return those that were not recorded before, with the time."""
    rows = await db.fetch(
        f"""
        WITH received AS (
          INSERT INTO offer_receipts (offer_id)
          SELECT id FROM ride_offers WHERE id = ANY ($1::uuid[]) ORDER BY id
          ON CONFLICT DO NOTHING RETURNING offer_id, received_at)
        SELECT {COLUMNS}, received_at FROM received JOIN ride_offers ON id = offer_id ORDER BY id
        """,  # noqa: S608 - constants only
        list(offer_ids),
    )
    return [(Offer(**{name: row[name] for name in COLUMNS.split(", ")}), row["received_at"]) for row in rows]


async def count_live_offers(db: Db) -> int:
    return await db.fetchval("SELECT count(*) FROM ride_offers WHERE held AND response IS NULL")
