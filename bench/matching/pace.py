"""Rides requested over HTTP at a steady pace: time to the first offer."""

import asyncio
from datetime import timedelta
from time import perf_counter
from uuid import UUID

import msgspec

from bench.matching.fixtures import delete_rides, new_passengers, pickup
from bench.pace import send_paced
from catraca.platform.auth import sign_token
from catraca.platform.database import Database

A_SECOND = 50
PACED_SECONDS = 8
CONNECTIONS = 16
LOOK_SECONDS = 0.002
LIMIT_SECONDS = 60


async def offer_milliseconds(url: str, database_url: str, secret: str) -> tuple[float, float]:
    """Median and 99th percentile, from the moment a request was due until its offer was seen committed."""
    database = await Database.open(database_url)
    passengers = await new_passengers(database, A_SECOND * PACED_SECONDS)
    requests = [_request(passenger, number, secret) for number, passenger in enumerate(passengers)]
    due: dict[UUID, float] = {}
    watching = asyncio.create_task(_watch(database, len(requests)))

    def asked(due_at: float, body: bytes) -> None:
        due[UUID(msgspec.json.decode(body)["ride_id"])] = due_at

    await send_paced(url, requests, asked, per_second=A_SECOND, connections=CONNECTIONS, status=201)
    async with asyncio.timeout(LIMIT_SECONDS):
        seen = await watching
    await delete_rides(database, list(due))
    await database.close()
    taken = sorted(seen[ride_id] - due[ride_id] for ride_id in due)
    return taken[len(taken) // 2] * 1000, taken[len(taken) * 99 // 100] * 1000


def _request(passenger_id: UUID, number: int, secret: str) -> bytes:
    token = sign_token(secret, subject=passenger_id, roles=["passenger"], lifetime=timedelta(hours=1))
    place = pickup(number)
    body = msgspec.json.encode({"pickup_lat": place.lat, "pickup_lon": place.lon})
    head = (
        "POST /v1/rides HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _watch(database: Database, count: int) -> dict[UUID, float]:
    """The time at which each new ride's first offer was visible to other transactions."""
    seen: dict[UUID, float] = {}
    async with database.connection() as db:
        known = {row["ride_id"] for row in await db.fetch("SELECT ride_id FROM ride_offers")}
        while len(seen) < count:
            rows = await db.fetch("SELECT ride_id FROM ride_offers WHERE held")
            at = perf_counter()
            for row in rows:
                if row["ride_id"] not in known:
                    seen.setdefault(row["ride_id"], at)
            await asyncio.sleep(LOOK_SECONDS)
    return seen
