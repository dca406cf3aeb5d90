"""Every statement on driver_presence.

Statements on several rows lock them in the order of their ids, so that two of them cannot deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.location.model import DriverId, Ping
from catraca.domains.location.presence.model import OnlineDriver, Presence
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.geo import Place, cell_of

PRESENCE = (
    "SELECT driver_id, online, changed_at, seen_at, clock_timestamp() - seen_at AS silence,"
    " lat, lng, position_at, accuracy_meters FROM driver_presence"
)


async def read_presence(db: Db, driver_ids: Iterable[UUID]) -> dict[DriverId, Presence]:
    rows = await db.fetch(f"{PRESENCE} WHERE driver_id = ANY ($1::uuid[])", list(driver_ids))
    return {row["driver_id"]: _presence(row) for row in rows}


async def online_among(db: Db, driver_ids: Iterable[UUID]) -> set[DriverId]:
    rows = await db.fetch(
        "SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online",
        list(driver_ids),
    )
    return {row["driver_id"] for row in rows}


async def go_online(db: Db, driver_id: DriverId, ping: Ping | None) -> datetime | None:
    """The time from which the driver is online; None if the driver was online before."""
    return await db.fetchval(
        "INSERT INTO driver_presence AS p"
        "   (driver_id, online, free_since, lat, lng, position_at, accuracy_meters, cell)"
        " VALUES ($1, true, clock_timestamp(), $2, $3, $4, $5, $6)"
        " ON CONFLICT (driver_id) DO UPDATE SET online = true, changed_at = EXCLUDED.changed_at,"
        "   seen_at = EXCLUDED.seen_at, free_since = EXCLUDED.free_since, idle_told = false,"
        "   lat = EXCLUDED.lat, lng = EXCLUDED.lng, position_at = EXCLUDED.position_at,"
        "   accuracy_meters = EXCLUDED.accuracy_meters, cell = EXCLUDED.cell"
        " WHERE NOT p.online RETURNING changed_at",
        driver_id,
        *_columns(ping),
    )


# The position of an offline driver is personal data without a use.
_OFFLINE = (
    "SET online = false, changed_at = clock_timestamp(), free_since = NULL, idle_told = false,"
    " lat = NULL, lng = NULL, position_at = NULL, accuracy_meters = NULL, cell = NULL"
)


async def go_offline(db: Db, driver_id: DriverId) -> datetime | None:
    """The time from which the driver is offline; None if the driver was offline before."""
    return await db.fetchval(
        f"UPDATE driver_presence {_OFFLINE} WHERE driver_id = $1 AND online RETURNING changed_at",
        driver_id,
    )


async def expire_silent(
    db: Db, driver_ids: Iterable[UUID], *, silent_for: timedelta
) -> dict[DriverId, datetime]:
    """Set drivers offline who were silent for so long; returns them, and the time of it."""
    rows = await db.fetch(
        "WITH silent AS MATERIALIZED ("  # noqa: S608
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "     AND seen_at < clock_timestamp() - $2::interval ORDER BY driver_id FOR UPDATE SKIP LOCKED)"
        f" UPDATE driver_presence p {_OFFLINE} FROM silent WHERE p.driver_id = silent.driver_id"
        " RETURNING p.driver_id, p.changed_at",
        list(driver_ids),
        silent_for,
    )
    return {row["driver_id"]: row["changed_at"] for row in rows}


async def write_silences(db: Db, silences: Mapping[DriverId, timedelta]) -> None:
    """Update when drivers were last seen; their positions stay."""
    await db.execute(
        "WITH locked AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "   ORDER BY driver_id FOR NO KEY UPDATE)"
        " UPDATE driver_presence p SET seen_at = greatest(p.seen_at, clock_timestamp() - n.silence)"
        " FROM unnest($1::uuid[], $2::interval[]) AS n (driver_id, silence) JOIN locked USING (driver_id)"
        " WHERE p.driver_id = n.driver_id",
        list(silences),
        list(silences.values()),
    )


@dataclass(frozen=True, slots=True)
class PositionWrite:
    """A ping, and the time since it was received."""

    driver_id: DriverId
    ping: Ping
    silence: timedelta = timedelta(0)


async def write_positions(db: Db, writes: Sequence[PositionWrite]) -> None:
    """Update the positions of online drivers, except where the row has a later ping."""
    await db.execute(
        "WITH locked AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "   ORDER BY driver_id FOR NO KEY UPDATE)"
        " UPDATE driver_presence p SET seen_at = greatest(p.seen_at, clock_timestamp() - n.silence),"
        "   lat = n.lat, lng = n.lng, position_at = n.at, accuracy_meters = n.accuracy, cell = n.cell"
        " FROM unnest($1::uuid[], $2::interval[], $3::float8[], $4::float8[], $5::timestamptz[],"
        "     $6::float4[], $7::integer[]) AS n (driver_id, silence, lat, lng, at, accuracy, cell)"
        "   JOIN locked USING (driver_id)"
        " WHERE p.driver_id = n.driver_id AND (p.position_at IS NULL OR p.position_at <= n.at)",
        [write.driver_id for write in writes],
        [write.silence for write in writes],
        *([columns[index] for columns in (_columns(write.ping) for write in writes)] for index in range(5)),
    )


async def nearest_pings(
    db: Db,
    place: Place,
    *,
    cells: Sequence[tuple[int, int]],
    radius_meters: float,
    fresh: timedelta | None,
    limit: int,
) -> list[tuple[DriverId, Ping]]:
    """Online drivers within the radius, nearest first, without positions older than `fresh`."""
    rows = await db.fetch(
        "SELECT * FROM ("
        "   SELECT p.driver_id, p.lat, p.lng, p.position_at, p.accuracy_meters,"
        "     12742018 * asin(least(1, sqrt(sind((p.lat - $3) / 2) ^ 2"
        "       + cosd($3) * cosd(p.lat) * sind((p.lng - $4) / 2) ^ 2))) AS meters"
        "   FROM unnest($1::integer[], $2::integer[]) AS span (first, last)"
        "   JOIN driver_presence p ON p.online AND p.cell BETWEEN span.first AND span.last"
        "   WHERE $6::interval IS NULL OR p.position_at > clock_timestamp() - $6::interval) AS near"
        " WHERE meters <= $5 ORDER BY meters LIMIT $7",
        [first for first, _ in cells],
        [last for _, last in cells],
        place.lat,
        place.lon,
        radius_meters,
        fresh,
        limit,
    )
    return [(row["driver_id"], _ping(row)) for row in rows]


async def online_page(db: Db, *, after: UUID, limit: int) -> list[OnlineDriver]:
    """Online drivers in the order of their ids."""
    rows = await db.fetch(
        "SELECT driver_id, clock_timestamp() - seen_at AS silence, lat, lng, position_at, accuracy_meters,"
        "   clock_timestamp() - free_since AS free_for, idle_told"
        " FROM driver_presence WHERE online AND driver_id > $1 ORDER BY driver_id LIMIT $2",
        after,
        limit,
    )
    return [
        OnlineDriver(
            driver_id=row["driver_id"],
            silence=row["silence"],
            ping=_ping_or_none(row),
            free_for=row["free_for"],
            idle_published=row["idle_told"],
        )
        for row in rows
    ]


async def mark_busy(db: Db, driver_ids: Iterable[UUID]) -> None:
    await db.execute(
        "WITH locked AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "   ORDER BY driver_id FOR NO KEY UPDATE)"
        " UPDATE driver_presence p SET free_since = NULL, idle_told = false"
        " FROM locked WHERE p.driver_id = locked.driver_id",
        list(driver_ids),
    )


async def mark_free(db: Db, driver_ids: Iterable[UUID]) -> None:
    await db.execute(
        "WITH locked AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "     AND free_since IS NULL ORDER BY driver_id FOR NO KEY UPDATE)"
        " UPDATE driver_presence p SET free_since = clock_timestamp()"
        " FROM locked WHERE p.driver_id = locked.driver_id",
        list(driver_ids),
    )


async def mark_idle(db: Db, driver_ids: Iterable[UUID], *, idle_after: timedelta) -> dict[DriverId, datetime]:
    """Mark drivers free for so long as idle; returns those newly marked, and since when they are free."""
    rows = await db.fetch(
        "WITH waiting AS MATERIALIZED ("
        "   SELECT driver_id FROM driver_presence WHERE driver_id = ANY ($1::uuid[]) AND online"
        "     AND NOT idle_told AND free_since < clock_timestamp() - $2::interval"
        "   ORDER BY driver_id FOR NO KEY UPDATE SKIP LOCKED)"
        " UPDATE driver_presence p SET idle_told = true FROM waiting WHERE p.driver_id = waiting.driver_id"
        " RETURNING p.driver_id, p.free_since",
        list(driver_ids),
        idle_after,
    )
    return {row["driver_id"]: row["free_since"] for row in rows}


async def erase(db: Db, driver_id: UUID) -> None:
    await db.execute("DELETE FROM driver_presence WHERE driver_id = $1", driver_id)


def _ping_or_none(row: Row) -> Ping | None:
    return None if row["lat"] is None else _ping(row)


def _columns(ping: Ping | None) -> tuple[object, object, object, object, object]:
    """lat, lng, position_at, accuracy_meters, cell: all of them null without a ping."""
    if ping is None:
        return None, None, None, None, None
    return ping.place.lat, ping.place.lon, ping.at, ping.accuracy_meters, cell_of(ping.place)


def _presence(row: Row) -> Presence:
    return Presence(
        row["driver_id"], row["online"], row["changed_at"], row["seen_at"], row["silence"], _ping_or_none(row)
    )


def _ping(row: Row) -> Ping:
    return Ping(Place(row["lat"], row["lng"]), row["position_at"], row["accuracy_meters"])


_EVENTS = (
    "SELECT aggregate_id, seq, routing_key FROM {} WHERE queue IS NULL"
    " AND routing_key IN ('location.driver.online', 'location.driver.offline')"
)
INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=8,
        name="presence changes are published",
        sentence="The last online or offline event of a driver, within a day, is the driver's presence.",
        query=f"WITH published AS ({_EVENTS.format('outbox')} UNION ALL {_EVENTS.format('outbox_sent')}),"  # noqa: S608
        " newest AS (SELECT DISTINCT ON (aggregate_id) aggregate_id, routing_key FROM published"
        "            ORDER BY aggregate_id, seq DESC)"
        " SELECT p.driver_id FROM driver_presence p LEFT JOIN newest n ON n.aggregate_id = p.driver_id"
        " WHERE p.changed_at > clock_timestamp() - interval '1 day' AND n.routing_key IS DISTINCT FROM"
        "   CASE WHEN p.online THEN 'location.driver.online' ELSE 'location.driver.offline' END",
    ),
    ConstraintHeld(
        name="offline drivers have no position",
        sentence="The position of an offline driver is not stored.",
        table="driver_presence",
        constraint="the_offline_are_nowhere",
        definition=("online", "lat IS NULL"),
    ),
)
