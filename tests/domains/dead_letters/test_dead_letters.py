"""What could not be handled is kept as it was, once for each queue it died in, until its retention ends."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from catraca.domains import dead_letters
from catraca.domains.dead_letters import handlers
from catraca.platform.bus import Headers, Message
from catraca.platform.database import Database
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.servers import Stack, until
from tests.support.working import own_parts, working

BODIES = {
    "empty": b"",
    "not UTF-8": b'{"name": "\xff\xfe\x00"}',
    "a megabyte": bytes(range(256)) * 4096,
    "not JSON": b"{",
}


@pytest.fixture(scope="module")
async def own(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings) as parts:
        yield parts


@pytest.fixture
async def database(own: Parts) -> Database:
    """A database in which nobody else's letters are."""
    async with own.database.connection() as db:
        await db.execute("TRUNCATE dead_letters")
    return own.database


def letter(body: bytes = b"{}", **headers: Any) -> Message:
    headers = {"queue": "audit_log_queue", "reason": "KeyError", "retries": 3, **headers}
    return Message(
        id=uuid4(), exchange="users.events", key="user.created", body=body, headers=Headers(**headers)
    )


async def store(database: Database, *messages: Message) -> None:
    for message in messages:
        await database.run(lambda db, message=message: handlers.store_dead_letter(db, message))


async def stored(database: Database) -> list[dict[str, Any]]:
    async with database.connection() as db:
        return [dict(row) for row in await db.fetch("SELECT * FROM dead_letters ORDER BY died_at")]


@pytest.mark.parametrize("body", BODIES)
async def test_a_letter_is_kept_as_it_was(database: Database, body: str) -> None:
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


async def test_the_same_message_dying_again_stays_one_letter_and_its_last_words_count(
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


async def test_words_of_strangers_that_the_database_cannot_hold_do_not_keep_a_letter_out(
    database: Database,
) -> None:
    """A letter that could not be written down would come back for ever: nothing is behind this queue."""
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
            return await dead_letters.count_dead_letters(db)

    assert await counted() == {}
    kinds = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")]
    await store(database, *(letter(queue=queue, reason=reason) for queue, reason in kinds))
    assert await counted() == {("a", "x"): 3, ("a", "y"): 1, ("b", "x"): 1}
    monkeypatch.setattr("catraca.domains.dead_letters.store.COUNTED_TO", 2)
    assert await counted() == {("a", "x"): 2, ("a", "y"): 1, ("b", "x"): 1}


async def test_letters_go_when_their_retention_ends(database: Database) -> None:
    old, young = letter(), letter()
    await store(database, old, young)
    async with database.connection() as db:
        await db.execute(
            "UPDATE dead_letters SET died_at = clock_timestamp() - interval '31 days' WHERE message_id = $1",
            old.id,
        )
        assert await dead_letters.prune_dead_letters(db, older_than=timedelta(days=30)) == 1
    assert [row["message_id"] for row in await stored(database)] == [young.id]


async def test_what_a_queue_cannot_handle_arrives_here(own: Parts, database: Database) -> None:
    """Through the bus itself: whatever its body, it is written down and leaves its queue."""
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
