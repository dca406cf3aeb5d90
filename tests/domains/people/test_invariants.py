"""The doctor rules of people."""

from uuid import uuid4

import pytest

from catraca.domains import people
from catraca.domains.people.accounts import service
from catraca.domains.people.model import UserId
from catraca.platform.database import Database
from catraca.platform.database.invariants import check_invariants
from tests.servers import Stack


@pytest.fixture
async def own(stack: Stack):
    """A private database that the test breaks."""
    url = await stack.migrated_database(f"people-{uuid4()}")
    database = await Database.open(url)
    yield database
    await database.close()


async def broken(database: Database) -> list[str]:
    verdicts = await check_invariants(database, people.INVARIANTS)
    assert "unchecked" not in {verdict.state for verdict in verdicts}
    return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]


async def test_rules_hold_and_each_breach_is_found(own: Database) -> None:
    erased, driver = UserId(uuid4()), UserId(uuid4())
    for user_id in (erased, driver):
        await own.run(
            lambda db, user_id=user_id: service.ensure_user(
                db, user_id, roles=["driver"], driver_approval="automatic"
            )
        )
    await own.run(lambda db: service.erase_user(db, erased, [people.PERSONAL_DATA], by=erased))
    assert await broken(own) == []
    breaches = {
        "every new user has a user.created event": f"DELETE FROM outbox WHERE aggregate_id = '{driver}'",
        "every user.created event has its user": "INSERT INTO outbox_sent (id, aggregate_id, seq, exchange,"
        "   routing_key, headers, body, created_at)"
        " SELECT gen_random_uuid(), gen_random_uuid(), 1, exchange, routing_key, headers, body, created_at"
        " FROM outbox",
        "one user per e-mail address": "ALTER TABLE users DROP CONSTRAINT users_email_folded_key",
        "erased users are empty": "ALTER TABLE users DROP CONSTRAINT erased_users_hold_nothing",
        "one unused password link per user": "DROP INDEX one_unused_password_link_a_user",
        "erased users have no password links": "INSERT INTO password_links"
        "   (token_sha256, user_id, expires_at)"
        f" VALUES (decode(repeat('00', 32), 'hex'), '{erased}', clock_timestamp())",
        "erased users have no sign-in addresses": "INSERT INTO sign_in_addresses (user_id, mark)"
        f" VALUES ('{erased}', decode(repeat('00', 32), 'hex'))",
        "erased users have no second factor": "INSERT INTO second_factors (user_id, secret)"
        f" VALUES ('{erased}', decode(repeat('00', 32), 'hex'))",
        "recovery codes belong to a second factor": "ALTER TABLE recovery_codes"
        " DROP CONSTRAINT recovery_codes_have_a_factor",
        "codes of e-mail changes have few tries": "ALTER TABLE email_changes"
        " DROP CONSTRAINT email_codes_have_few_tries",
        "erased users have no e-mail change": "INSERT INTO email_changes (user_id, id, email, expires_at)"
        f" VALUES ('{erased}', '{erased}', 'a@b.example', clock_timestamp())",
        "erased drivers have no car": f"UPDATE drivers SET plate = 'ABC1D23' WHERE user_id = '{erased}'",
        "drivers keep their role": "ALTER TABLE drivers DROP CONSTRAINT drivers_keep_their_role",
        "no driver without a profile": f"DELETE FROM drivers WHERE user_id = '{driver}'",
    }
    assert set(breaches) == {rule.name for rule in people.INVARIANTS}
    seen: list[str] = []
    for name, breach in breaches.items():
        async with own.transaction() as db:
            await db.execute(breach)
        seen.append(name)
        assert await broken(own) == seen


async def test_users_older_than_the_first_event_need_none(own: Database) -> None:
    async with own.transaction() as db:
        await db.execute("INSERT INTO users (id, roles) VALUES (gen_random_uuid(), '{}')")
    assert await broken(own) == []
    await own.run(
        lambda db: service.ensure_user(db, uuid4(), roles=["passenger"], driver_approval="automatic")
    )
    assert await broken(own) == []
    async with own.transaction() as db:
        await db.execute("INSERT INTO users (id, roles) VALUES (gen_random_uuid(), '{}')")
    assert await broken(own) == ["every new user has a user.created event"]


async def test_events_of_new_users_can_be_pruned_after_a_day(own: Database) -> None:
    for _ in range(2):
        await own.run(
            lambda db: service.ensure_user(db, uuid4(), roles=["passenger"], driver_approval="automatic")
        )
    async with own.transaction() as db:
        await db.execute(
            "WITH sent AS (DELETE FROM outbox RETURNING *)"
            " INSERT INTO outbox_sent"
            "   (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
            " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at FROM sent"
        )
    assert await broken(own) == []
    async with own.transaction() as db:
        await db.execute("UPDATE users SET created_at = created_at - interval '25 hours'")
        await db.execute("DELETE FROM outbox_sent")
    assert await broken(own) == []
