"""Dead letters for the tests, and what the database holds of them."""

from typing import Any
from uuid import UUID, uuid4

import msgspec

from catraca.domains.dead_letters import LetterId
from catraca.domains.dead_letters.letters import handlers
from catraca.platform.bus import Headers, Message
from catraca.platform.database import Database

QUEUE = "audit_log_queue"
STRICT = "strict_queue"
"""A queue that accepts `user.created` only and has `on_discard`."""


def letter(
    body: bytes = b"{}", *, message_id: UUID | None = None, key: str = "user.created", **headers: Any
) -> Message:
    headers = {"queue": QUEUE, "reason": "KeyError", "retries": 3, **headers}
    return Message(
        id=message_id or uuid4(), exchange="users.events", key=key, body=body, headers=Headers(**headers)
    )


async def store(database: Database, *messages: Message) -> None:
    for message in messages:
        await database.run(lambda db, message=message: handlers.store_dead_letter(db, message))


async def stored(database: Database) -> list[dict[str, Any]]:
    return await rows(database, "SELECT * FROM dead_letters ORDER BY died_at")


async def bury(database: Database, body: bytes = b"{}", **headers: Any) -> LetterId:
    """Store a dead message; returns the id of its letter."""
    message = letter(body, **headers)
    await store(database, message)
    (row,) = await rows(database, "SELECT id FROM dead_letters WHERE message_id = $1", message.id)
    return LetterId(row["id"])


async def die_again(database: Database, letter_id: UUID, **changes: Any) -> None:
    """The message dies again in the same queue, unchanged or changed."""
    row = await of(database, letter_id)
    headers = msgspec.json.decode(row["headers"], type=Headers)
    known = {"message_id": row["message_id"], "queue": row["queue"], "reason": headers.reason}
    await store(database, letter(changes.pop("body", row["body"]), **(known | changes)))


async def of(database: Database, letter_id: UUID) -> dict[str, Any]:
    (row,) = await rows(database, "SELECT * FROM dead_letters WHERE id = $1", letter_id)
    return row


async def replays(database: Database) -> list[dict[str, Any]]:
    """Unsent replays, ordered by time."""
    return await rows(
        database, "SELECT * FROM outbox WHERE queue IS NOT NULL ORDER BY leased_until, position"
    )


async def send_everything(database: Database) -> None:
    """Move all replays to the sent ones, as the relay does."""
    await execute(
        database,
        "WITH gone AS (DELETE FROM outbox WHERE queue IS NOT NULL RETURNING *)"
        " INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "   queue, message_id)"
        " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at, queue, message_id"
        " FROM gone",
    )


async def audited(database: Database) -> list[dict[str, Any]]:
    """The audit entries of dead letters, in order."""
    found = await rows(
        database, "SELECT * FROM audit_log WHERE subject_kind LIKE 'dead_letter%' ORDER BY at, id"
    )
    return [{**row, "data": msgspec.json.decode(row["data"])} for row in found]


async def execute(database: Database, statement: str, *values: object) -> None:
    async with database.connection() as db:
        await db.execute(statement, *values)


async def rows(database: Database, query: str, *values: object) -> list[dict[str, Any]]:
    async with database.connection() as db:
        return [dict(row) for row in await db.fetch(query, *values)]
