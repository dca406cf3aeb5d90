"""Every statement on offers. Each is made, answered or ended while its ride's row is held."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Offer, OfferId, Response, RideId
from catraca.platform.database import Db, Row

COLUMNS = "id, ride_id, driver_id, round, attempt, offered_at, expires_at, responded_at, response, reason"
OFFERS = "SELECT " + COLUMNS + " FROM ride_offers"  # noqa: S608 - our own words


async def insert_offers(
    db: Db, ride_id: RideId, drivers: Sequence[tuple[OfferId, UserId]], *, ttl: timedelta
) -> list[Offer]:
    """One offer for each driver who is free; the unique index on held offers decides who is.

    Only on a ride that is open. Whoever has given this ride up is left out.
    """
    rows = await db.fetch(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at),"  # noqa: S608 - our own words
        " wanted AS ("
        "   SELECT w.id, w.driver_id, row_number() OVER (ORDER BY w.place) AS place"
        "   FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS w (id, driver_id, place)"
        "   WHERE NOT EXISTS (SELECT FROM ride_offers o WHERE o.driver_id = w.driver_id AND o.held)"
        "   AND NOT EXISTS (SELECT FROM ride_offers o WHERE o.ride_id = $1 AND o.driver_id = w.driver_id"
        "     AND o.response = 'ACCEPTED'))"
        " INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, offered_at, expires_at)"
        " SELECT w.id, r.id, w.driver_id, r.round,"
        "   w.place + (SELECT coalesce(max(attempt), 0) FROM ride_offers WHERE ride_id = $1),"
        "   moment.at, least(moment.at + $4::interval, r.deadline_at)"
        " FROM rides r CROSS JOIN wanted w CROSS JOIN moment"
        " WHERE r.id = $1 AND r.status IN ('REQUESTED', 'SEARCHING', 'OFFERED') AND r.deadline_at > moment.at"
        # In one order, so that two who want the same drivers cannot wait for each other.
        " ORDER BY w.driver_id"
        f" ON CONFLICT (driver_id) WHERE held DO NOTHING RETURNING {COLUMNS}",
        ride_id,
        [offer_id for offer_id, _ in drivers],
        [driver_id for _, driver_id in drivers],
        ttl,
    )
    return sorted(map(_offer, rows), key=lambda offer: offer.attempt)


async def close_gaps(db: Db, ride_id: RideId) -> dict[UUID, int]:
    """Number the ride's offers without a gap, in their order; answers which have another number now.

    Whoever the unique index turned away had one, and only the offers of this transaction come after it.
    """
    rows = await db.fetch(
        "UPDATE ride_offers o SET attempt = counted.place"
        " FROM (SELECT id, row_number() OVER (ORDER BY attempt) AS place"
        "   FROM ride_offers WHERE ride_id = $1) AS counted"
        " WHERE o.id = counted.id AND o.attempt <> counted.place RETURNING o.id, o.attempt",
        ride_id,
    )
    return {row["id"]: row["attempt"] for row in rows}


async def rides_with_lapsed_offers(db: Db, driver_ids: Iterable[UUID]) -> list[RideId]:
    """Where these drivers have an offer that ran out and that nobody has ended yet."""
    rows = await db.fetch(
        "SELECT ride_id FROM ride_offers WHERE driver_id = ANY ($1::uuid[]) AND held"
        " AND response IS NULL AND expires_at <= clock_timestamp()",
        list(driver_ids),
    )
    return [row["ride_id"] for row in rows]


async def live_offers_of(db: Db, driver_id: UserId) -> list[RideId]:
    rows = await db.fetch(
        "SELECT ride_id FROM ride_offers WHERE driver_id = $1 AND held AND response IS NULL", driver_id
    )
    return [row["ride_id"] for row in rows]


async def expire_lapsed_offers(db: Db, ride_id: RideId) -> list[Offer]:
    """End what ran out; the same kind of guard as an acceptance's, so not both can win."""
    rows = await db.fetch(
        "UPDATE ride_offers SET response = 'EXPIRED', responded_at = clock_timestamp(), held = false"  # noqa: S608
        " WHERE ride_id = $1 AND response IS NULL AND expires_at <= (SELECT clock_timestamp())"
        f" RETURNING {COLUMNS}",
        ride_id,
    )
    return sorted(map(_offer, rows), key=lambda offer: offer.attempt)


async def cancel_live_offers(db: Db, ride_id: RideId, *, reason: str) -> list[Offer]:
    rows = await db.fetch(
        "UPDATE ride_offers SET response = 'CANCELED', responded_at = clock_timestamp(), held = false,"  # noqa: S608
        f" reason = $2 WHERE ride_id = $1 AND response IS NULL RETURNING {COLUMNS}",
        ride_id,
        reason,
    )
    return sorted(map(_offer, rows), key=lambda offer: offer.attempt)


async def answer_live_offer(
    db: Db, ride_id: RideId, driver_id: UserId, response: Response, *, reason: str | None
) -> Offer | None:
    """A live offer's end other than acceptance; None when there is none, or it ran out."""
    row = await db.fetchrow(
        "UPDATE ride_offers SET response = $3, responded_at = clock_timestamp(), held = false, reason = $4"  # noqa: S608
        " WHERE ride_id = $1 AND driver_id = $2 AND response IS NULL AND expires_at > clock_timestamp()"
        f" RETURNING {COLUMNS}",
        ride_id,
        driver_id,
        response,
        reason,
    )
    return None if row is None else _offer(row)


async def release_driver(db: Db, ride_id: RideId, *, reason: str | None = None) -> None:
    """The accepted driver is free again. The answer stays as it was given."""
    await db.execute(
        "UPDATE ride_offers SET held = false, reason = $2"
        " WHERE ride_id = $1 AND held AND response = 'ACCEPTED'",
        ride_id,
        reason,
    )


async def newest_offer(db: Db, ride_id: RideId, driver_id: UserId) -> Offer | None:
    row = await db.fetchrow(
        f"{OFFERS} WHERE ride_id = $1 AND driver_id = $2 ORDER BY attempt DESC LIMIT 1",
        ride_id,
        driver_id,
    )
    return None if row is None else _offer(row)


async def first_expiry(db: Db, ride_id: RideId) -> datetime | None:
    """When the first of the live offers runs out; None when none is live."""
    return await db.fetchval(
        "SELECT min(expires_at) FROM ride_offers WHERE ride_id = $1 AND response IS NULL", ride_id
    )


async def read_offers(db: Db, ride_id: RideId, *, limit: int) -> list[Offer]:
    rows = await db.fetch(f"{OFFERS} WHERE ride_id = $1 ORDER BY attempt LIMIT $2", ride_id, limit)
    return [_offer(row) for row in rows]


async def offers_of_round(db: Db, ride_id: RideId, round_number: int) -> list[Offer]:
    rows = await db.fetch(
        f"{OFFERS} WHERE ride_id = $1 AND round = $2 ORDER BY attempt", ride_id, round_number
    )
    return [_offer(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Asked:
    """An offer in short: to whom, until when, and what they said."""

    driver_id: UUID
    expires_at: datetime
    response: Response | None


async def everybody_asked(db: Db, ride_id: RideId) -> tuple[datetime, list[Asked]]:
    """What time it is, and all offers of the ride, in any round, in their order."""
    rows = await db.fetch(
        "SELECT moment.at, o.driver_id, o.expires_at, o.response"
        " FROM (SELECT clock_timestamp() AS at) AS moment LEFT JOIN ride_offers o ON o.ride_id = $1"
        " ORDER BY o.attempt",
        ride_id,
    )
    return rows[0]["at"], [
        Asked(row["driver_id"], row["expires_at"], row["response"])
        for row in rows
        if row["driver_id"] is not None
    ]


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a driver: a ride that is theirs, or that is offered to them."""

    ride_id: RideId
    driving: bool


async def busy_drivers(db: Db, driver_ids: Iterable[UUID]) -> dict[UUID, Hold]:
    """Who of these is held, and by what."""
    rows = await db.fetch(
        "SELECT driver_id, ride_id, response IS NOT NULL AS driving FROM ride_offers"
        " WHERE driver_id = ANY ($1::uuid[]) AND held"
        # One that ran out holds nobody: whoever makes the next offer ends it first.
        " AND (response = 'ACCEPTED' OR expires_at > clock_timestamp())",
        list(driver_ids),
    )
    return {row["driver_id"]: Hold(row["ride_id"], row["driving"]) for row in rows}


async def open_among(db: Db, offer_ids: Iterable[UUID]) -> set[UUID]:
    """Which of these offers can still be accepted."""
    rows = await db.fetch(
        "SELECT id FROM ride_offers WHERE id = ANY ($1::uuid[]) AND response IS NULL"
        " AND expires_at > clock_timestamp()",
        list(offer_ids),
    )
    return {row["id"] for row in rows}


async def insert_receipts(db: Db, offer_ids: Iterable[UUID]) -> list[tuple[Offer, datetime]]:
    """Note that these were received; answers those that were not before, with the moment."""
    rows = await db.fetch(
        "WITH received AS ("  # noqa: S608 - our own words
        "   INSERT INTO offer_receipts (offer_id)"
        "   SELECT id FROM ride_offers WHERE id = ANY ($1::uuid[]) ORDER BY id"
        "   ON CONFLICT DO NOTHING RETURNING offer_id, received_at)"
        f" SELECT {COLUMNS}, received_at FROM received JOIN ride_offers ON id = offer_id ORDER BY id",
        list(offer_ids),
    )
    return [(_offer({name: row[name] for name in COLUMNS.split(", ")}), row["received_at"]) for row in rows]


async def count_live_offers(db: Db) -> int:
    return await db.fetchval("SELECT count(*) FROM ride_offers WHERE held AND response IS NULL")


def _offer(row: Row) -> Offer:
    return Offer(**row)
