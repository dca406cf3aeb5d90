"""One key has one effect and one response: repeated, concurrent, interrupted."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.platform.database import Database
from catraca.platform.database.idempotency import (
    Claim,
    StoredResponse,
    lock_unused_keys,
    prune_idempotency_keys,
    store_responses,
)
from catraca.platform.errors import Forbidden
from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import bearer, free_port, listening
from tests.servers import Stack, on_one_stack, until
from tests.storms.idempotency import effects_of, kill_server_among_repeats, post
from tests.support import effects

WHO = uuid4()


@pytest.fixture(scope="module")
async def client(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """An API with the route of `tests.support.effects` beside the product's own."""
    own = settings.changed(port=free_port())
    async with open_parts(own) as parts:
        await effects.create_tables(parts.database)
        async with (
            listening(parts, [effects.router]) as url,
            httpx.AsyncClient(base_url=url, timeout=30) as client,
        ):
            yield client


async def test_repeat_gets_the_first_response_unchanged(
    client: httpx.AsyncClient, database: Database
) -> None:
    who, label = uuid4(), str(uuid4())
    first = await post(client, label, "k1", who=who)
    again = await post(client, label, "k1", who=who)
    assert first.status_code == again.status_code == 201
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len(await effects_of(database, label)) == 1


def claim_of(key: str, roles: Sequence[str] = ("passenger",)) -> Claim:
    return Claim(principal_id=WHO, roles=roles, method="POST", route="r", key=key, request=b"{}")


async def test_responses_stored_together_are_replayed(database: Database) -> None:
    keys = [str(uuid4()) for _ in range(2)]
    responses = {key: StoredResponse(201, {"etag": key}, key.encode()) for key in keys}
    async with database.transaction() as db:
        claims = {key: claim_of(key) for key in keys}
        assert await lock_unused_keys(db, claims.values()) == set(claims.values())
        await store_responses(db, [(claims[key], responses[key]) for key in keys])
    for key in keys:
        again = claim_of(key)
        async with database.transaction(again) as db:
            assert again.repeated
            assert await again.stored_response(db) == responses[key]
    async with database.transaction() as db:
        assert await lock_unused_keys(db, [claim_of(key) for key in keys]) == set()
        with pytest.raises(Forbidden):
            await claim_of(keys[0], roles=()).stored_response(db)


async def test_keys_in_use_are_left_out_without_waiting(database: Database) -> None:
    key, new = str(uuid4()), claim_of(str(uuid4()))
    async with database.transaction(claim_of(key)), database.transaction() as db:
        assert await lock_unused_keys(db, [claim_of(key), new]) == {new}


async def test_requests_without_a_key_are_independent(client: httpx.AsyncClient, database: Database) -> None:
    who, label = uuid4(), str(uuid4())
    for _ in range(2):
        assert (await post(client, label, None, who=who)).status_code == 201
    assert len(await effects_of(database, label)) == 2


async def test_same_key_of_two_people_is_two_keys(client: httpx.AsyncClient, database: Database) -> None:
    label = str(uuid4())
    mine, theirs = await post(client, label, "same"), await post(client, label, "same")
    assert mine.json()["id"] != theirs.json()["id"]
    assert len(await effects_of(database, label)) == 2


async def test_same_key_with_another_body_is_refused(client: httpx.AsyncClient, database: Database) -> None:
    who, label, other = uuid4(), str(uuid4()), str(uuid4())
    await post(client, label, "k", who=who)
    refused = await post(client, other, "k", who=who)
    assert refused.status_code == 422
    assert refused.json()["code"] == "idempotency_key_reused"
    assert not await effects_of(database, other)


async def test_refusal_is_not_stored_and_can_be_retried(
    client: httpx.AsyncClient, database: Database
) -> None:
    who, label = uuid4(), str(uuid4())
    for _ in range(2):
        assert (await post(client, label, "k", who=who, refuse=True)).status_code == 403
    assert not await effects_of(database, label)


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256, "a\tb"])
async def test_malformed_key_is_refused(client: httpx.AsyncClient, database: Database, key: str) -> None:
    label = str(uuid4())
    headers = {**bearer("passenger"), "idempotency-key": key.encode("utf-8")}
    answer = await client.post("/test/effects", json={"label": label}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid")
    assert not await effects_of(database, label)


async def test_responses_with_secrets_are_not_stored(client: httpx.AsyncClient, database: Database) -> None:
    headers = {**bearer("passenger"), "idempotency-key": "s"}
    first, again = [
        await client.post("/test/secrets", json={"label": "x"}, headers=headers) for _ in range(2)
    ]
    assert first.json()["id"] != again.json()["id"]


async def test_hundred_concurrent_repeats_have_one_effect(
    client: httpx.AsyncClient, database: Database
) -> None:
    who, label = uuid4(), str(uuid4())
    answers = await asyncio.gather(*(post(client, label, "k", who=who) for _ in range(100)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(await effects_of(database, label)) == 1


async def test_repeat_waits_a_limited_time_for_the_first(
    client: httpx.AsyncClient, database: Database
) -> None:
    who, label, gate = uuid4(), str(uuid4()), random.getrandbits(30)
    async with database.transaction() as db:
        await db.execute("INSERT INTO test_gates VALUES ($1)", gate)
    async with database.transaction() as holder:
        await holder.execute("SELECT FROM test_gates WHERE number = $1 FOR UPDATE", gate)
        first = asyncio.create_task(post(client, label, "k", who=who, gate=gate))
        await until(lambda: _waiting_at_gate(database))
        repeat = await post(client, label, "k", who=who, gate=gate)
    assert repeat.status_code == 409
    assert repeat.json()["code"] == "idempotency_key_in_use"
    assert int(repeat.headers["retry-after"]) >= 1
    assert (await first).status_code == 201
    settled = await post(client, label, "k", who=who, gate=gate)
    assert settled.content == first.result().content
    assert await effects_of(database, label) == [UUID(settled.json()["id"])]


async def _waiting_at_gate(database: Database) -> bool:
    async with database.connection() as db:
        return await db.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND query LIKE '%test_gates%')"
        )


async def test_disconnected_clients_leave_no_partial_effect(
    client: httpx.AsyncClient, database: Database
) -> None:
    """Disconnected at many moments: the effect and its stored response exist both or not at all."""
    who, label = uuid4(), str(uuid4())
    for cut in range(40):
        await _hang_up(client, label, f"cut-{cut}", who, after_seconds=cut * 0.0005)
    keys_before = await _keys(database)
    answers = [await post(client, label, f"cut-{cut}", who=who) for cut in range(40)]
    assert all(answer.status_code == 201 for answer in answers)
    made = await effects_of(database, label)
    assert sorted(made) == sorted(UUID(answer.json()["id"]) for answer in answers)
    assert await _keys(database) >= keys_before


async def _hang_up(
    client: httpx.AsyncClient, label: str, key: str, who: UUID, *, after_seconds: float
) -> None:
    url = client.base_url
    _, writer = await asyncio.open_connection(url.host, url.port)
    body = b'{"label":"%s"}' % label.encode()
    writer.write(
        b"POST /test/effects HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
        b"idempotency-key: %s\r\nauthorization: %s\r\ncontent-length: %d\r\n\r\n%s"
        % (key.encode(), bearer("service", who)["authorization"].encode(), len(body), body)
    )
    await writer.drain()
    await asyncio.sleep(after_seconds)  # a varying moment, not a wait for something
    writer.transport.abort()


async def _keys(database: Database) -> int:
    async with database.connection() as db:
        return await db.fetchval("SELECT count(*) FROM idempotency_keys")


@on_one_stack
async def test_effect_happens_once_when_workers_are_killed(
    stack: Stack, settings: Settings, database: Database
) -> None:
    """On one stack: our own process is killed. `make prove` repeats it on both stacks."""
    await effects.create_tables(database)
    await kill_server_among_repeats(settings, database, kill_after_answers=1)


async def test_only_old_keys_are_pruned(client: httpx.AsyncClient, database: Database) -> None:
    who, label = uuid4(), str(uuid4())
    first = await post(client, label, "old", who=who)
    async with database.transaction() as db:
        assert await prune_idempotency_keys(db, older_than=timedelta(hours=1)) == 0
    assert (await post(client, label, "old", who=who)).content == first.content
    async with database.transaction() as db:
        assert await prune_idempotency_keys(db, older_than=timedelta(0)) >= 1
    assert (await post(client, label, "old", who=who)).content != first.content
