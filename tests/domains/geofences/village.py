"""A village: a community with a square fence, its passengers and drivers, in a town."""

import hashlib
import itertools
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import httpx

from catraca.domains.communities import Community, CommunityId, Fences, Rules
from catraca.domains.communities.service import create_community
from catraca.domains.fares import Tariff
from catraca.domains.geofences import CommunityRides, ConfirmationTokens, GeofenceTerms
from catraca.domains.geofences.confirmations import jobs
from catraca.domains.location.model import DriverId
from catraca.roles.domain_rules import cancellation_rule
from tests.conftest import SECRET, bearer
from tests.domains.location.town import Town
from tests.servers import until
from tests.support.http import served

PATH = "/api/governance/ride/request"
# Each test has its own village, far from all others.
_places = ((-30 + number // 50, -60 + number % 50) for number in itertools.count())
FENCE_METERS = 1000
# Outside the fence, within the search radius.
OUTSIDE_METERS = 3000
PORTUGUESE = {"accept-language": "pt-BR"}
METERS_A_DEGREE = 111_320


def square(lat: float, lng: float, *, meters: float = FENCE_METERS) -> dict[str, Any]:
    """A fence whose sides are `meters` from the place."""
    north = meters / METERS_A_DEGREE
    east = north / math.cos(math.radians(lat))
    w, e, s, n = lng - east, lng + east, lat - north, lat + north
    return {"type": "Polygon", "coordinates": [[[w, s], [e, s], [e, n], [w, n], [w, s]]]}


def request_body(lat: float, lng: float) -> dict[str, Any]:
    """The contract's first example, at this place."""
    return {
        "type": "comunidade",
        "passengerLat": lat,
        "passengerLng": lng,
        "origin": "Origem",
        "destination": "Destino",
        "price": 15.50,
    }


@dataclass
class Village:
    town: Town
    lat: float
    lng: float
    community: Community

    @classmethod
    async def create(cls, town: Town, **rules: Any) -> Self:
        lat, lng = next(_places)
        return cls(town, lat, lng, await make_community(town, square(lat, lng), **rules))

    def body(self, **changes: Any) -> dict[str, Any]:
        """A request in the village; a field that is None is omitted."""
        body = request_body(self.lat, self.lng) | changes
        return {name: value for name, value in body.items() if value is not None}

    async def add_community(self, fence: dict[str, Any], **rules: Any) -> Community:
        return await make_community(self.town, fence, **rules)

    async def add_driver(
        self, *, north_meters: float = 0, based: bool = False, community: Community | None = None
    ) -> UUID:
        """An online driver `north_meters` from the middle; home is the village, `community`, or none."""
        driver_id = await self.town.new_driver(lat=self.lat + north_meters / METERS_A_DEGREE, lng=self.lng)
        if based or community:
            await self.sql(
                "UPDATE drivers SET home_community_id = $2 WHERE user_id = $1",
                DriverId(driver_id),
                (community or self.community).id,
            )
        return driver_id

    async def post(
        self, passenger_id: UUID, headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        """As the passenger, unless `headers` name another caller."""
        return await self.town.api.post(
            PATH,
            json={"passengerId": str(passenger_id), **body},
            headers=self.headers(passenger_id) | (headers or {}),
        )

    def headers(self, passenger_id: UUID) -> dict[str, str]:
        return bearer("passenger", passenger_id) | PORTUGUESE

    async def request(self, passenger_id: UUID, **changes: Any) -> httpx.Response:
        return await self.post(passenger_id, **self.body(**changes))

    async def request_token(self, passenger_id: UUID, **changes: Any) -> str:
        """The token of a request that needs a confirmation."""
        answer = await self.request(passenger_id, **changes)
        assert answer.status_code == 202, answer.text
        return answer.json()["confirmationToken"]

    async def confirm(self, passenger_id: UUID, token: str, **more: Any) -> httpx.Response:
        return await self.post(passenger_id, confirmationToken=token, **more)

    async def confirm_ride(self, passenger_id: UUID, token: str) -> UUID:
        """Confirm; returns the id of the new ride."""
        answer = await self.confirm(passenger_id, token)
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["rideId"])

    async def rides_of(self, passenger_id: UUID) -> list[UUID]:
        rows = await self.sql("SELECT id FROM rides WHERE passenger_id = $1 ORDER BY id", passenger_id)
        return [row["id"] for row in rows]

    async def confirmation(self, token: str) -> Any:
        """The row of this token, or None."""
        rows = await self.sql("SELECT * FROM ride_confirmations WHERE token_hash = $1", digest(token))
        return rows[0] if rows else None

    async def audit_actions(self, token: str) -> list[tuple[str, UUID | None]]:
        """The confirmation's outcomes in the audit log, each with its actor."""
        row = await self.confirmation(token)
        rows = await self.sql(
            "SELECT action, actor_id FROM audit_log WHERE subject_kind = 'confirmation' AND subject_id = $1"
            " ORDER BY id",
            str(row["id"]),
        )
        return [(row["action"].removeprefix("confirmation."), row["actor_id"]) for row in rows]

    async def age(self, token: str, by: timedelta = timedelta(hours=1)) -> None:
        """Move the confirmation's times into the past."""
        await self.sql(
            "UPDATE ride_confirmations SET created_at = created_at - $2::interval,"
            " expires_at = expires_at - $2::interval, used_at = used_at - $2::interval,"
            " expired_at = expired_at - $2::interval WHERE token_hash = $1",
            digest(token),
            by,
        )

    async def expire(self, token: str) -> None:
        """Fire the confirmation's timer."""
        row = await self.confirmation(token)
        await self.town.parts.database.run(lambda db: jobs.expire_confirmation(db, row["id"]))

    async def cancel(self, passenger_id: UUID, ride_id: UUID) -> None:
        answer = await self.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
        assert answer.json()["status"] == "CANCELED", answer.text

    async def until_blocked(self, count: int) -> None:
        """Wait until `count` transactions wait for a lock."""
        await until(lambda: self._are_blocked(count))

    async def _are_blocked(self, count: int) -> bool:
        rows = await self.sql(
            "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return len(rows) == count

    async def sql(self, query: str, *args: object) -> Sequence[Any]:
        return await self.town.rides.sql(query, *args)

    @asynccontextmanager
    async def with_settings(self, **settings: object) -> AsyncIterator[Self]:
        """The same village at an API with these settings."""
        async with served(self.town.parts, **settings) as here, here.client() as client:
            yield replace(self, town=replace(self.town, api=client))


async def make_community(town: Town, fence: dict[str, Any], **rules: Any) -> Community:
    async with town.parts.database.transaction() as db:
        return await create_community(
            db, CommunityId(uuid4()), Rules(**{"name": "Vila", **rules}), json.dumps(fence), by=None
        )


def community_rides(village: Village) -> CommunityRides:
    """The service behind the API's route."""
    parts = village.town.parts
    terms = GeofenceTerms(
        cancellations=cancellation_rule(parts.settings.rides),
        enabled=True,
        confirmation_ttl=timedelta(minutes=5),
        tariff=Tariff(
            base_cents=500, per_km_cents=180, per_minute_cents=30, minimum_cents=800, currency="BRL"
        ),
        search_timeout=timedelta(minutes=5),
        radius_meters=15_000,
        fresh=timedelta(minutes=1),
    )
    return CommunityRides(parts.redis, Fences(), terms, ConfirmationTokens(SECRET))


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
