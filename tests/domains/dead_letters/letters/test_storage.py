"""Storage, counts and retention of dead letters."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from catraca.domains.dead_letters import ReplayTargets
from catraca.domains.dead_letters.letters.store import count_waiting
from catraca.domains.dead_letters.replay.jobs import prune_dead_letters
from catraca.platform.bus import Headers
from catraca.platform.database import Database
from catraca.roles.parts import Parts
from tests.domains.dead_letters.conftest import DiscardLog
from tests.domains.dead_letters.example_letters import (
    STRICT,
    bury,
    die_again,
    execute,
    letter,
    of,
    store,
    stored,
)
from tests.servers import until
from tests.support.roles import working

BODIES = {
    "empty": b"",
    "not UTF-8": b'{"name": "\xff\xfe\x00"}',
    "a megabyte": bytes(range(256)) * 4096,
    "not JSON": b"{",
}


@pytest.mark.parametrize("body", BODIES)
async def test_letter_is_stored_unchanged(database: Database, body: str) -> None:
    message = letter(BODIES[body])
    await store(database, message)
    (row,) = await stored(database)
    assert (row["queue"], row["reason"], row["times"]) == ("audit_log_queue", "KeyError", 1)
    assert (row["message_id"], row["exchange"], row["routing_key"]) == (
        message.id,
        "users.events",
        "user.created",
    )
    assert row["body"] == BODIES[body]
    assert msgspec.json.decode(row["headers"], type=Headers) == message.headers


async def test_repeated_death_updates_the_same_letter(
    database: Database,
) -> None:
    message = letter(b"1")
    again = replace(message.with_headers(reason="ride_unknown"), body=b"2")
    elsewhere = message.with_headers(queue="billing_events_queue")
    await store(database, message, again, elsewhere)
    rows = await stored(database)
    assert [(row["queue"], row["reason"], row["times"], row["body"]) for row in rows] == [
        ("audit_log_queue", "ride_unknown", 2, b"2"),
        ("billing_events_queue", "KeyError", 1, b"1"),
    ]


async def test_characters_postgres_cannot_store_are_replaced(
    database: Database,
) -> None:
    """A letter that cannot be stored would be redelivered for ever: this queue has no dead letters."""
    message = replace(letter(reason="a\0b", trace="\ud800"), exchange="x\0", key="user.\udfff\0")
    nameless = letter(queue=None, reason=None)
    await store(database, message, nameless)
    first, second = await stored(database)
    assert (first["exchange"], first["routing_key"], first["reason"]) == (
        "x\ufffd",
        "user.?\ufffd",
        "a\ufffdb",
    )
    assert msgspec.json.decode(first["headers"], type=Headers).trace == "?"
    assert (second["queue"], second["reason"]) == ("unknown", "unknown")


async def test_letters_are_counted_by_queue_and_reason(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def counted() -> dict[tuple[str, str], int]:
        async with database.connection() as db:
            return await count_waiting(db)

    assert await counted() == {}
    kinds = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")]
    await store(database, *(letter(queue=queue, reason=reason) for queue, reason in kinds))
    assert await counted() == {("a", "x"): 3, ("a", "y"): 1, ("b", "x"): 1}
    monkeypatch.setattr("catraca.domains.dead_letters.letters.store.GROUP_MAX_COUNT", 2)
    assert await counted() == {("a", "x"): 2, ("a", "y"): 1, ("b", "x"): 1}


async def test_only_waiting_letters_are_counted(database: Database) -> None:
    decided, waiting = await bury(database), await bury(database, reason="ride_unknown")
    await execute(
        database,
        "UPDATE dead_letters SET state = 'replayed', decided_at = now() WHERE id = $1",
        decided,
    )
    async with database.connection() as db:
        assert await count_waiting(db) == {("audit_log_queue", "ride_unknown"): 1}
    assert (await of(database, waiting))["state"] == "waiting"


@pytest.mark.parametrize("state", ["replayed", "discarded"])
async def test_letter_that_dies_again_waits_again(database: Database, state: str) -> None:
    letter_id = await bury(database)
    await execute(
        database,
        "UPDATE dead_letters SET state = $2, decided_at = now(), decided_by = gen_random_uuid(),"
        "   decision_reason = CASE $2 WHEN 'discarded' THEN 'a test' END WHERE id = $1",
        letter_id,
        state,
    )
    await die_again(database, letter_id, reason="ride_unknown")
    row = await of(database, letter_id)
    assert (row["state"], row["times"], row["version"], row["reason"]) == ("waiting", 2, 2, "ride_unknown")
    assert row["decided_at"] is row["decided_by"] is row["decision_reason"] is None


async def test_long_names_are_cut_to_fit_the_index(database: Database) -> None:
    """The characters do not repeat, so that PostgreSQL cannot compress them."""
    words = "".join(chr(0x4E00 + n) for n in range(5000))
    await store(database, replace(letter(queue=words, reason=words, trace=words), exchange=words, key=words))
    (row,) = await stored(database)
    cut = words[:255]
    assert [row[name] for name in ("queue", "reason", "exchange", "routing_key")] == [cut] * 4


async def test_letters_are_pruned_after_their_retention(
    database: Database, targets: ReplayTargets, discards: DiscardLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catraca.domains.dead_letters.replay.service.BODIES_AT_ONCE", 2)
    old = [await bury(database, str(n).encode(), queue=STRICT) for n in range(5)]
    elsewhere, decided, young = await bury(database), await bury(database, queue=STRICT), await bury(database)
    await execute(
        database,
        "UPDATE dead_letters SET died_at = now() - interval '31 days' WHERE id = ANY ($1::uuid[])",
        [*old, elsewhere, decided],
    )
    await execute(
        database, "UPDATE dead_letters SET state = 'replayed', decided_at = now() WHERE id = $1", decided
    )

    async def prune() -> int:
        return await database.run(
            lambda db: prune_dead_letters(db, older_than=timedelta(days=30), targets=targets)
        )

    monkeypatch.setattr("catraca.domains.dead_letters.replay.jobs.PRUNED_AT_ONCE", 6)
    assert [await prune(), await prune(), await prune()] == [6, 1, 0]
    assert [row["id"] for row in await stored(database)] == [young]
    # `on_discard` got the letters that were still waiting, with their bodies.
    assert sorted((one.id, one.body) for one in discards.letters) == sorted(
        (letter_id, str(n).encode()) for n, letter_id in enumerate(old)
    )


async def test_dead_messages_are_stored_by_the_housekeeper(own: Parts, database: Database) -> None:
    """By the bus itself: any body is stored and leaves its queue."""
    messages = [letter(body) for body in BODIES.values()]
    async with working(own, ["housekeeper"]):
        assert await own.bus.publish([replace(one, exchange="dlx") for one in messages]) == [None] * 4
        rows = await until(lambda: all_stored(database, len(messages)))
        await until(lambda: is_empty(own))
    assert {row["message_id"]: row["body"] for row in rows} == {one.id: one.body for one in messages}


async def all_stored(database: Database, count: int) -> list[dict[str, Any]]:
    rows = await stored(database)
    return rows if len(rows) == count else []


async def is_empty(parts: Parts) -> bool:
    return (await parts.bus.depths())["dead_letter_queue"] == 0
