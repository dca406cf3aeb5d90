"""Communities without drivers of their own, and passengers who request rides there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Literal
from uuid import UUID, uuid4

import asyncpg
import msgspec
import shapely

from bench.geofences.fences import Plot, plots
from bench.location.world import put_online
from catraca.domains.geofences import ConfirmationTokens
from catraca.domains.geofences.model import CommunityRequest, write_request
from catraca.platform.auth import sign_token
from catraca.platform.ids import token_digest

DRIVERS = 300
# Within this distance of the centre drivers are near.
AROUND_METERS = 6000.0
What = Literal["plain", "ask", "confirm"]


@dataclass(frozen=True, slots=True)
class Home:
    plot: Plot
    lat: float
    lng: float

    @property
    def asked(self) -> CommunityRequest:
        return CommunityRequest(type="comunidade", lat=self.lat, lng=self.lng)


@dataclass(frozen=True, slots=True)
class Wish:
    """One passenger's request: its bearer token and its body."""

    bearer: str
    body: str


@cache
def homes() -> Sequence[Home]:
    """The communities amid the drivers, each with a place in its fence."""
    near = [plot for plot in plots() if max(map(abs, plot.middle)) < AROUND_METERS]
    inside = [shapely.point_on_surface(shapely.from_geojson(plot.geojson)) for plot in near]
    return [Home(plot, float(point.y), float(point.x)) for plot, point in zip(near, inside, strict=True)]


async def settle_land(database_url: str, redis_url: str) -> None:
    """Insert all communities, and some hundred drivers in the middle of the map without a home community."""
    await put_online(database_url, redis_url, DRIVERS)
    db = await asyncpg.connect(database_url)
    try:
        async with db.transaction():
            await db.copy_records_to_table(
                "communities",
                columns=["id", "version", "revision"],
                records=[(plot.id, 1, 1) for plot in plots()],
            )
            await db.copy_records_to_table(
                "community_versions",
                columns=["community_id", "version", "name", "fence", "fallback", "neighbour_ids"],
                records=[(plot.id, 1, "Medida", plot.geojson, ["open"], []) for plot in plots()],
            )
            await db.execute("UPDATE communities_revision SET revision = 1")
        await db.execute("VACUUM ANALYZE communities, community_versions")
    finally:
        await db.close()


async def make_wishes(database_url: str, secret: str, what: What, count: int) -> list[Wish]:
    """Insert new passengers and return a request of each; for `confirm` with an open confirmation."""
    visits = [(uuid4(), homes()[number % len(homes())]) for number in range(count)]
    db = await asyncpg.connect(database_url)
    try:
        await db.execute(
            "INSERT INTO users (id, roles) SELECT id, '{passenger}' FROM unnest($1::uuid[]) AS id",
            [passenger_id for passenger_id, _ in visits],
        )
        if what == "confirm":
            tokens = await _ask_all(db, ConfirmationTokens(secret), visits)
            bodies = [{"confirmationToken": token} for token in tokens]
        else:
            bodies = [_body(what, home) for _, home in visits]
        # Unsent events of the last measurement must not load this one.
        await db.execute("TRUNCATE outbox, outbox_sent")
        await db.execute("ANALYZE users, rides, ride_confirmations, timers")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()
    return [
        Wish(
            sign_token(secret, subject=passenger_id, roles=["passenger"], lifetime=timedelta(hours=6)),
            msgspec.json.encode(body).decode(),
        )
        for (passenger_id, _), body in zip(visits, bodies, strict=True)
    ]


def _body(what: What, home: Home) -> Mapping[str, object]:
    if what == "plain":
        return {"pickup_lat": home.lat, "pickup_lon": home.lng}
    return {"type": "comunidade", "passengerLat": home.lat, "passengerLng": home.lng}


async def _ask_all(
    db: asyncpg.Connection, tokens: ConfirmationTokens, visits: Sequence[tuple[UUID, Home]]
) -> list[str]:
    """Insert the rows that a request of each leaves in the database; returns the confirmation tokens."""
    ids = [uuid4() for _ in visits]
    made = [tokens.token_of(one) for one in ids]
    await db.executemany(
        "INSERT INTO ride_confirmations (id, passenger_id, token_hash, asked, asked_hash, community_id,"
        "   community_version, tier, expires_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, 1, 'open', clock_timestamp() + interval '1 day')",
        [
            (
                one,
                passenger_id,
                token_digest(token),
                write_request(home.asked),
                home.asked.digest(),
                home.plot.id,
            )
            for one, token, (passenger_id, home) in zip(ids, made, visits, strict=True)
        ],
    )
    await db.execute(
        "INSERT INTO timers (kind, subject_id, due_at, awake_at)"
        " SELECT 'geofences.confirmation_due', id, at, at FROM unnest($1::uuid[]) AS id,"
        "   (SELECT clock_timestamp() + interval '1 day' AS at) AS due",
        ids,
    )
    return made


async def count_rows(database_url: str, what: What) -> int:
    """Count confirmations, plain rides or confirmed rides."""
    queries = {
        "plain": "SELECT count(*) FROM rides WHERE type = 'normal'",
        "ask": "SELECT count(*) FROM ride_confirmations",
        "confirm": "SELECT count(*) FROM rides WHERE confirmation_id IS NOT NULL",
    }
    db = await asyncpg.connect(database_url)
    try:
        return await db.fetchval(queries[what])
    finally:
        await db.close()
