"""The schema itself allows one ride for a confirmation: SQL that breaks the rules is refused."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains import geofences
from catraca.platform.database.invariants import check_invariants
from catraca.settings import Settings
from tests.domains.geofences.village import Village
from tests.domains.location.town import Town
from tests.domains.rides.desk import Desk
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts


@dataclass
class Confirmations:
    """A passenger's confirmations: one used, one open, one expired; and another passenger's ride."""

    village: Village
    passenger_id: UUID
    ride_id: UUID
    used: UUID
    open: UUID
    expired: UUID
    others_ride_id: UUID

    def sql_of(self, template: str) -> str:
        names = ("passenger_id", "ride_id", "used", "open", "expired", "others_ride_id")
        values = {name: f"'{getattr(self, name)}'" for name in names}
        return template.format(**values, community=f"'{self.village.community.id}'", nothing=f"'{uuid4()}'")

    async def execute(self, template: str) -> Any:
        async with self.village.town.parts.database.transaction() as db:
            await db.execute(self.sql_of(template))

    async def broken(self) -> set[str]:
        verdicts = await check_invariants(self.village.town.parts.database, geofences.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def create_confirmations(village: Village) -> Confirmations:
    passenger_id, other_id = uuid4(), uuid4()
    used, live = await village.request_token(passenger_id), await village.request_token(passenger_id, price=1)
    expired = await village.request_token(passenger_id, price=2)
    ride_id = await village.confirm_ride(passenger_id, used)
    await village.age(expired)
    await village.expire(expired)
    others_ride_id = await village.town.rides.request(other_id)
    confirmations = [(await village.confirmation(one))["id"] for one in (used, live, expired)]
    return Confirmations(village, passenger_id, ride_id, *confirmations, others_ride_id)


USE = "UPDATE ride_confirmations SET used_at = clock_timestamp(), ride_id = "
UNUSE = "UPDATE ride_confirmations SET used_at = NULL, ride_id = NULL WHERE id = {used}"
CAME_FROM = "UPDATE rides SET type = 'comunidade', community_id = {community}, community_version = 1,"
COPY = (
    "INSERT INTO ride_confirmations (id, passenger_id, token_hash, asked, asked_hash, community_id,"
    " community_version, tier, expires_at) SELECT {nothing}, passenger_id, "
)
FROM_OPEN = ", community_id, community_version, tier, expires_at FROM ride_confirmations WHERE id = {open}"
ATTEMPTS = {
    "for another's ride": (
        USE + "{others_ride_id} WHERE id = {open}",
        "confirmations_name_their_ride",
    ),
    "for another's ride that names it": (
        CAME_FROM
        + " tier = 'open', confirmation_id = {open} WHERE id = {others_ride_id};"
        + USE
        + "{others_ride_id} WHERE id = {open}",
        "name_their",
    ),
    "for a ride that came from another": (
        USE + "{ride_id} WHERE id = {open}",
        "confirmations_name_their_ride",
    ),
    "for an unknown ride": (USE + "{nothing} WHERE id = {open}", "confirmations_name_their_ride"),
    "by another's ride, unused": (
        CAME_FROM + " tier = 'open', confirmation_id = {open} WHERE id = {others_ride_id}",
        "rides_name_their_confirmation",
    ),
    "for a second ride": (
        CAME_FROM + " tier = 'open', confirmation_id = {used} WHERE id = {others_ride_id}",
        "one_ride_a_confirmation",
    ),
    "for no ride": (
        "UPDATE ride_confirmations SET used_at = clock_timestamp() WHERE id = {open}",
        "used_confirmations_have_a_ride",
    ),
    "too late": (
        "UPDATE ride_confirmations SET used_at = expires_at, ride_id = {ride_id} WHERE id = {open}",
        "confirmations_are_used_in_time",
    ),
    "after it was expired": (
        "UPDATE ride_confirmations SET used_at = created_at, ride_id = {ride_id} WHERE id = {expired}",
        "expired_confirmations_stay_unused",
    ),
    "expired after it was used": (
        "UPDATE ride_confirmations SET expired_at = clock_timestamp() WHERE id = {used}",
        "expired_confirmations_stay_unused",
    ),
    "unconfirmed, for other drivers": (
        CAME_FROM + " tier = 'open' WHERE id = {others_ride_id}",
        "rides_beyond_the_fence_were_confirmed",
    ),
    "unconfirmed, for neighbours": (
        CAME_FROM + " tier = 'neighbours' WHERE id = {others_ride_id}",
        "rides_beyond_the_fence_were_confirmed",
    ),
    "taken from its ride": (
        "UPDATE rides SET confirmation_id = NULL WHERE id = {ride_id}; " + UNUSE,
        "rides_beyond_the_fence_were_confirmed",
    ),
    "deleted while its ride exists": ("DELETE FROM ride_confirmations WHERE id = {used}", "confirmation"),
    "a second one for the same request": (
        COPY + "sha256('another'), asked, asked_hash" + FROM_OPEN,
        "one_live_confirmation_a_request",
    ),
    "with the same token": (
        COPY + "token_hash, asked, sha256('another')" + FROM_OPEN,
        "one_confirmation_a_token",
    ),
    "with the token instead of its digest": (
        COPY + "convert_to(repeat('5f1d', 16), 'UTF8'), asked, sha256('another')" + FROM_OPEN,
        "token_hash",
    ),
    "for the community's own drivers": (
        "UPDATE ride_confirmations SET tier = 'home' WHERE id = {open}",
        "ride_confirmations_tier_check",
    ),
    "of an unknown version": (
        "UPDATE ride_confirmations SET community_version = 2 WHERE id = {open}",
        "community_id_community_version_fkey",
    ),
    "a community ride without a community": (
        "UPDATE rides SET type = 'comunidade' WHERE id = {others_ride_id}",
        "community_rides_name_their_community",
    ),
}


async def test_schema_refuses_invalid_uses(village: Village) -> None:
    rows = await create_confirmations(village)
    before = await village.sql("SELECT * FROM ride_confirmations ORDER BY id")
    for name, (template, constraint) in ATTEMPTS.items():
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await rows.execute(template)
        assert constraint in str(refused.value.constraint_name), name
    assert await village.sql("SELECT * FROM ride_confirmations ORDER BY id") == before


@pytest.fixture
async def broken_village(stack: Stack, settings: Settings, village_town: Town) -> AsyncIterator[Village]:
    """A village with its own database, whose constraints the test drops."""
    async with (
        own_parts(stack, settings, redis_url=village_town.redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield await Village.create(Town(parts, client, village_town.redis, Desk(client, parts.database)))


PUBLISH = (
    "INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
    " SELECT gen_random_uuid(), {}, 99, exchange, routing_key, headers, body, created_at FROM outbox"
    " WHERE aggregate_id = {{expired}}"
)
UNPUBLISH = "DELETE FROM outbox WHERE aggregate_id = {expired}"
BREACHES = {
    "expired confirmations are published": UNPUBLISH,
    "one ride a confirmation": "ALTER TABLE rides DROP CONSTRAINT one_ride_a_confirmation",
    "confirmations name their ride": "ALTER TABLE ride_confirmations"
    " DROP CONSTRAINT confirmations_name_their_ride",
    "rides name their confirmation": "ALTER TABLE rides DROP CONSTRAINT rides_name_their_confirmation",
    "rides and confirmations name each other": "UPDATE ride_confirmations SET ride_id = {others_ride_id}"
    " WHERE id = {used}",
    "rides beyond the fence were confirmed": "ALTER TABLE rides"
    " DROP CONSTRAINT rides_beyond_the_fence_were_confirmed",
}


async def test_rules_hold_and_each_breach_is_found(broken_village: Village) -> None:
    rows = await create_confirmations(broken_village)
    assert await rows.broken() == set()
    for confirmation in ("{expired}", "{open}", "{used}"):
        await rows.execute(PUBLISH.format(confirmation))
        assert await rows.broken() == {"expired confirmations are published"}, confirmation
        await rows.execute("DELETE FROM outbox_sent WHERE seq = 99")
    assert sorted(BREACHES) == sorted(rule.name for rule in geofences.INVARIANTS)
    seen: set[str] = set()
    for name, breach in BREACHES.items():
        await rows.execute(breach)
        assert await rows.broken() - seen == {name}
        seen.add(name)
