"""One ride a confirmation is the schema's rule: whoever writes past the code is refused as well."""

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
class Scene:
    """One question used for a ride, one of the same passenger's live, one closed; and another's ride."""

    village: Village
    passenger_id: UUID
    ride_id: UUID
    used: UUID
    live: UUID
    closed: UUID
    others_ride_id: UUID

    def in_words(self, attempt: str) -> str:
        names = ("passenger_id", "ride_id", "used", "live", "closed", "others_ride_id")
        values = {name: f"'{getattr(self, name)}'" for name in names}
        return attempt.format(**values, community=f"'{self.village.community.id}'", nothing=f"'{uuid4()}'")

    async def attempt(self, words: str) -> Any:
        """By hand, in one transaction."""
        async with self.village.town.parts.database.transaction() as db:
            await db.execute(self.in_words(words))

    async def broken(self) -> set[str]:
        verdicts = await check_invariants(self.village.town.parts.database, geofences.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def a_scene(village: Village) -> Scene:
    passenger_id, other_id = uuid4(), uuid4()
    used, live = await village.token(passenger_id), await village.token(passenger_id, price=1)
    closed = await village.token(passenger_id, price=2)
    ride_id = await village.confirmed(passenger_id, used)
    await village.let_lapse(closed)
    await village.close(closed)
    others_ride_id = await village.town.rides.request(other_id)
    questions = [(await village.question(one))["id"] for one in (used, live, closed)]
    return Scene(village, passenger_id, ride_id, *questions, others_ride_id)


USE = "UPDATE ride_confirmations SET used_at = clock_timestamp(), ride_id = "
FORGET = "UPDATE ride_confirmations SET used_at = NULL, ride_id = NULL WHERE id = {used}"
CAME_FROM = "UPDATE rides SET type = 'comunidade', community_id = {community}, community_version = 1,"
COPY = (
    "INSERT INTO ride_confirmations (id, passenger_id, token_hash, asked, asked_hash, community_id,"
    " community_version, tier, expires_at) SELECT {nothing}, passenger_id, "
)
FROM_LIVE = ", community_id, community_version, tier, expires_at FROM ride_confirmations WHERE id = {live}"
ATTEMPTS = {
    "for another's ride": (
        USE + "{others_ride_id} WHERE id = {live}",
        "confirmations_name_their_ride",
    ),
    "for another's ride that names it": (
        CAME_FROM
        + " tier = 'open', confirmation_id = {live} WHERE id = {others_ride_id};"
        + USE
        + "{others_ride_id} WHERE id = {live}",
        "name_their",
    ),
    "for a ride that came from another": (
        USE + "{ride_id} WHERE id = {live}",
        "confirmations_name_their_ride",
    ),
    "for a ride that there is not": (USE + "{nothing} WHERE id = {live}", "confirmations_name_their_ride"),
    "by another's ride, unused": (
        CAME_FROM + " tier = 'open', confirmation_id = {live} WHERE id = {others_ride_id}",
        "rides_name_their_confirmation",
    ),
    "for a second ride": (
        CAME_FROM + " tier = 'open', confirmation_id = {used} WHERE id = {others_ride_id}",
        "one_ride_a_confirmation",
    ),
    "for no ride": (
        "UPDATE ride_confirmations SET used_at = clock_timestamp() WHERE id = {live}",
        "used_confirmations_have_a_ride",
    ),
    "too late": (
        "UPDATE ride_confirmations SET used_at = expires_at, ride_id = {ride_id} WHERE id = {live}",
        "confirmations_are_used_in_time",
    ),
    "after it was closed": (
        "UPDATE ride_confirmations SET used_at = created_at, ride_id = {ride_id} WHERE id = {closed}",
        "expired_confirmations_stay_unused",
    ),
    "closed after it was used": (
        "UPDATE ride_confirmations SET expired_at = clock_timestamp() WHERE id = {used}",
        "expired_confirmations_stay_unused",
    ),
    "never, and others may come": (
        CAME_FROM + " tier = 'open' WHERE id = {others_ride_id}",
        "rides_beyond_the_fence_were_confirmed",
    ),
    "never, and neighbours may come": (
        CAME_FROM + " tier = 'neighbours' WHERE id = {others_ride_id}",
        "rides_beyond_the_fence_were_confirmed",
    ),
    "taken from its ride": (
        "UPDATE rides SET confirmation_id = NULL WHERE id = {ride_id}; " + FORGET,
        "rides_beyond_the_fence_were_confirmed",
    ),
    "dropped from under its ride": ("DELETE FROM ride_confirmations WHERE id = {used}", "confirmation"),
    "asked a second time": (
        COPY + "sha256('another'), asked, asked_hash" + FROM_LIVE,
        "one_live_confirmation_a_request",
    ),
    "with the same token": (
        COPY + "token_hash, asked, sha256('another')" + FROM_LIVE,
        "one_confirmation_a_token",
    ),
    "with the token instead of its digest": (
        COPY + "convert_to(repeat('5f1d', 16), 'UTF8'), asked, sha256('another')" + FROM_LIVE,
        "token_hash",
    ),
    "about the community's own": (
        "UPDATE ride_confirmations SET tier = 'home' WHERE id = {live}",
        "ride_confirmations_tier_check",
    ),
    "of a version that never was": (
        "UPDATE ride_confirmations SET community_version = 2 WHERE id = {live}",
        "community_id_community_version_fkey",
    ),
    "a community's ride without one": (
        "UPDATE rides SET type = 'comunidade' WHERE id = {others_ride_id}",
        "community_rides_name_their_community",
    ),
}


async def test_no_confirmation_can_be_used_past_the_code(village: Village) -> None:
    scene = await a_scene(village)
    before = await village.sql("SELECT * FROM ride_confirmations ORDER BY id")
    for name, (words, constraint) in ATTEMPTS.items():
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await scene.attempt(words)
        assert constraint in str(refused.value.constraint_name), name
    assert await village.sql("SELECT * FROM ride_confirmations ORDER BY id") == before


@pytest.fixture
async def broken_village(stack: Stack, settings: Settings, village_town: Town) -> AsyncIterator[Village]:
    """On a database of its own, for breaking."""
    async with (
        own_parts(stack, settings, redis_url=village_town.redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield await Village.settle(Town(parts, client, village_town.redis, Desk(client, parts.database)))


TELL = (
    "INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
    " SELECT gen_random_uuid(), {}, 99, exchange, routing_key, headers, body, created_at FROM outbox"
    " WHERE aggregate_id = {{closed}}"
)
UNTELL = "DELETE FROM outbox WHERE aggregate_id = {closed}"
BREACHES = {
    "expired confirmations are published": UNTELL,
    "one ride a confirmation": "ALTER TABLE rides DROP CONSTRAINT one_ride_a_confirmation",
    "confirmations name their ride": "ALTER TABLE ride_confirmations"
    " DROP CONSTRAINT confirmations_name_their_ride",
    "rides name their confirmation": "ALTER TABLE rides DROP CONSTRAINT rides_name_their_confirmation",
    "rides and confirmations name each other": "UPDATE ride_confirmations SET ride_id = {others_ride_id}"
    " WHERE id = {used}",
    "rides beyond the fence were confirmed": "ALTER TABLE rides"
    " DROP CONSTRAINT rides_beyond_the_fence_were_confirmed",
}


async def test_the_rules_hold_and_each_breach_is_seen(broken_village: Village) -> None:
    scene = await a_scene(broken_village)
    assert await scene.broken() == set()
    for question in ("{closed}", "{live}", "{used}"):
        await scene.attempt(TELL.format(question))
        assert await scene.broken() == {"expired confirmations are published"}, question
        await scene.attempt("DELETE FROM outbox_sent WHERE seq = 99")
    assert sorted(BREACHES) == sorted(rule.name for rule in geofences.INVARIANTS)
    seen: set[str] = set()
    for name, breach in BREACHES.items():
        await scene.attempt(breach)
        assert await scene.broken() - seen == {name}
        seen.add(name)
