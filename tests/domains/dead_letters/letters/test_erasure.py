"""Erasure of a user deletes decided letters about the user."""

from uuid import UUID, uuid4

import pytest

from catraca.domains import dead_letters
from catraca.domains.people import UserId
from catraca.platform.database import Database
from tests.servers import Stack

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")

TABLES = {"dead_letters": "id", "outbox": "aggregate_id", "outbox_sent": "aggregate_id"}


async def bury(database: Database, about: UUID, *, state: str) -> UUID:
    """Insert a letter and its sent replay."""
    letter, reason = uuid4(), "a test" if state == "discarded" else None
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body,"
            "   state, decided_at, decision_reason)"
            " VALUES ($1, 'raffle_queue', $1, 'e', 'k', 'KeyError',"
            "   jsonb_build_object('aggregate_id', $2::text), '{}', $3::text,"
            "   CASE WHEN $3::text <> 'waiting' THEN now() END, $4)",
            letter,
            str(about),
            state,
            reason,
        )
        for table in ("outbox", "outbox_sent"):
            await db.execute(
                f"INSERT INTO {table} (id, aggregate_id, seq, exchange, routing_key, headers, body,"
                "   created_at, queue, message_id)"
                " VALUES (gen_random_uuid(), $1, 1, 'e', 'k', '{}', '{}', now(), 'raffle_queue', $1)",
                letter,
            )
    return letter


async def left(database: Database, *letters: UUID) -> dict[str, set[UUID]]:
    async with database.connection() as db:
        return {
            table: {
                row["id"]
                for row in await db.fetch(
                    f"SELECT {column} AS id FROM {table} WHERE {column} = ANY ($1::uuid[])", list(letters)
                )
            }
            for table, column in TABLES.items()
        }


async def test_erasure_deletes_decided_letters_and_their_replays(database: Database, stack: Stack) -> None:
    person, other = UserId(uuid4()), uuid4()
    gone = [await bury(database, person, state=state) for state in ("replayed", "discarded")]
    kept = {await bury(database, person, state="waiting"), await bury(database, other, state="replayed")}
    part = dead_letters.PERSONAL_DATA
    exported = await database.run(lambda db: part.export(db, person))
    assert isinstance(exported, list)
    assert sorted(letter["state"] for letter in exported) == ["discarded", "replayed", "waiting"]
    await database.run(lambda db: part.erase(db, person))
    assert await left(database, *gone, *kept) == dict.fromkeys(
        ("dead_letters", "outbox", "outbox_sent"), kept
    )
    async with database.transaction() as db:
        await db.execute("DELETE FROM outbox WHERE aggregate_id = ANY ($1::uuid[])", list(kept))
