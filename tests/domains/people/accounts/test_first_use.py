"""The first use of a token adds its user."""

import asyncio
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from catraca.domains import people
from catraca.events import UserCreated
from catraca.platform.database import Database, Db
from tests.conftest import bearer
from tests.domains.people.person import Person


async def test_fifty_first_requests_add_one_driver(api: httpx.AsyncClient, database: Database) -> None:
    driver = Person("driver")
    answers = await asyncio.gather(*(api.get("/v1/me", headers=driver.headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM users WHERE id = $1", driver.id) == 1
        assert await db.fetchval("SELECT count(*) FROM drivers WHERE user_id = $1", driver.id) == 1
        rows = await db.fetch("SELECT routing_key, body FROM outbox WHERE aggregate_id = $1", driver.id)
    assert [row["routing_key"] for row in rows] == ["user.created"]
    event = msgspec.json.decode(rows[0]["body"], type=UserCreated)
    assert (event.user_id, event.roles) == (driver.id, ("driver",))


async def test_user_created_is_published_only_if_the_user_is_added(database: Database) -> None:
    """Not after a rollback, and not again for a known user with another role."""
    rolled_back, known = uuid4(), uuid4()

    class RolledBack(Exception):
        pass

    async def ensure(db: Db, user_id: UUID, *roles: str) -> None:
        await people.ensure_user(db, user_id, roles=roles, driver_approval="automatic")

    with pytest.raises(RolledBack):
        async with database.transaction() as db:
            await ensure(db, rolled_back, "passenger")
            raise RolledBack
    await database.run(lambda db: ensure(db, known, "passenger"))
    await database.run(lambda db: ensure(db, known, "passenger", "driver"))
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT aggregate_id, seq FROM outbox WHERE aggregate_id = ANY ($1::uuid[])", [rolled_back, known]
        )
    assert [tuple(row.values()) for row in rows] == [(known, 1)]


async def test_concurrent_first_uses_add_one_driver(database: Database) -> None:
    """Without the cache of the API: every call reaches the database, all at the same time."""

    async def ensure(db: Db, driver: UUID) -> None:
        await people.ensure_user(db, driver, roles=["driver"], driver_approval="automatic")

    for _ in range(20):
        driver = uuid4()
        await asyncio.gather(*(database.run(lambda db, one=driver: ensure(db, one)) for _ in range(10)))
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM outbox WHERE aggregate_id = $1", driver) == 1
        row = await db.fetchrow(
            "SELECT u.roles, d.approval FROM users u JOIN drivers d ON u.id = d.user_id WHERE u.id = $1",
            driver,
        )
    assert row is not None
    assert (row["roles"], row["approval"]) == (["driver"], "approved")


async def test_driver_waits_only_if_approval_is_required(
    api: httpx.AsyncClient, strict_api: httpx.AsyncClient, database: Database
) -> None:
    at_once, waiting = await Person("driver").known_to(api), await Person("driver").known_to(strict_api)
    async with database.connection() as db:
        assert await people.may_drive(db, people.UserId(at_once.id))
        assert not await people.may_drive(db, people.UserId(waiting.id))
        assert not await people.may_drive(db, people.UserId(uuid4()))


async def test_passenger_becomes_a_driver_by_a_driver_token(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana = await Person().known_to(api)
    answer = await api.get("/v1/me", headers=bearer(["passenger", "driver"], ana.id))
    assert answer.json()["driver"]["approval"] == "approved"
    async with database.connection() as db:
        user = await people.get_user(db, people.UserId(ana.id))
    assert set(user.roles) == {"passenger", "driver"}


async def test_other_roles_of_a_token_are_not_stored(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().known_to(api)
    assert (await api.get("/v1/users", headers=bearer("operator", ana.id))).status_code == 200
    async with database.connection() as db:
        assert (await people.get_user(db, people.UserId(ana.id))).roles == ("passenger",)


async def test_get_users_returns_names_and_languages(api: httpx.AsyncClient, database: Database) -> None:
    ana, joao, unknown = Person(), Person(), people.UserId(uuid4())
    await ana.change(api, name="Ana", language="en")
    await joao.change(api, name="João")
    async with database.connection() as db:
        found = await people.get_users(db, [people.UserId(ana.id), people.UserId(joao.id), unknown])
    assert {user.id: (user.name, user.language) for user in found.values()} == {
        ana.id: ("Ana", "en"),
        joao.id: ("João", "pt-BR"),
    }
