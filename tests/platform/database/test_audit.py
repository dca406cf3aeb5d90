"""The audit log: written in the transaction of the action, and never changed."""

from uuid import uuid4

import asyncpg
import pytest
import structlog

from catraca.platform.database import Database, Db, audit
from catraca.platform.errors import Forbidden


async def record(db: Db, subject: str, **more: object) -> None:
    await audit.record(
        db,
        actor_id=uuid4(),
        action="driver.approved",
        subject_kind="driver",
        subject_id=subject,
        data=dict(more),
    )


async def entries(database: Database, subject: str) -> list[asyncpg.Record]:
    async with database.connection() as db:
        return list(await db.fetch("SELECT * FROM audit_log WHERE subject_id = $1 ORDER BY id", subject))


async def test_entry_has_actor_action_subject_time_and_request(database: Database) -> None:
    actor, subject = uuid4(), uuid4()
    with structlog.contextvars.bound_contextvars(request_id="request-1234"):
        async with database.transaction() as db:
            await audit.record(
                db,
                actor_id=actor,
                action="driver.approved",
                subject_kind="driver",
                subject_id=subject,
                data={"reason": "papéis em ordem", "by": actor},
            )
            began = await db.fetchval("SELECT transaction_timestamp()")
    (entry,) = await entries(database, str(subject))
    assert (entry["actor_id"], entry["action"], entry["subject_kind"]) == (actor, "driver.approved", "driver")
    assert entry["request_id"] == "request-1234"
    assert entry["data"] == f'{{"by": "{actor}", "reason": "papéis em ordem"}}'
    assert entry["at"] >= began


async def test_entry_outside_a_request_has_no_request_id(database: Database) -> None:
    subject = str(uuid4())
    async with database.transaction() as db:
        await record(db, subject)
    (entry,) = await entries(database, subject)
    assert (entry["request_id"], entry["data"]) == (None, "{}")


async def test_rolled_back_action_leaves_no_entry(database: Database) -> None:
    subject = str(uuid4())
    with pytest.raises(Forbidden):
        async with database.transaction() as db:
            await record(db, subject)
            raise Forbidden
    assert await entries(database, subject) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET action = 'nothing' WHERE subject_id = $1",
        "UPDATE audit_log SET at = at WHERE subject_id = $1 AND false",
        "DELETE FROM audit_log WHERE subject_id = $1",
        "TRUNCATE audit_log",
        "MERGE INTO audit_log USING (SELECT $1::text AS s) x ON subject_id = s WHEN MATCHED THEN DELETE",
    ],
)
async def test_entries_cannot_be_changed_or_deleted(database: Database, statement: str) -> None:
    subject = str(uuid4())
    async with database.transaction() as db:
        await record(db, subject)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
        async with database.transaction() as db:
            await db.execute(statement, *([subject] if "$1" in statement else []))
    assert len(await entries(database, subject)) == 1
