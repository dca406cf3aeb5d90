"""A valid token makes its person, once."""

import asyncio
from uuid import uuid4

import httpx

from catraca.domains import people
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.people.someone import Someone


async def test_fifty_first_requests_of_one_driver_make_one_person(
    api: httpx.AsyncClient, database: Database
) -> None:
    driver = Someone("driver")
    answers = await asyncio.gather(*(api.get("/v1/me", headers=driver.headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM users WHERE id = $1", driver.id) == 1
        assert await db.fetchval("SELECT count(*) FROM drivers WHERE user_id = $1", driver.id) == 1


async def test_many_processes_meeting_one_driver_make_one_person(database: Database) -> None:
    """Past the memory of one process: every call reaches the database."""
    driver = uuid4()

    async def meet() -> None:
        async with database.connection() as db:
            await people.ensure_user(db, driver, roles=["driver"], driver_approval="automatic")

    await asyncio.gather(*(meet() for _ in range(50)))
    async with database.connection() as db:
        row = await db.fetchrow(
            "SELECT u.roles, d.approval FROM users u JOIN drivers d ON u.id = d.user_id WHERE u.id = $1",
            driver,
        )
    assert row is not None
    assert (row["roles"], row["approval"]) == (["driver"], "approved")


async def test_a_driver_may_drive_at_once_unless_approval_is_required(
    api: httpx.AsyncClient, strict_api: httpx.AsyncClient, database: Database
) -> None:
    at_once, waiting = await Someone("driver").known_to(api), await Someone("driver").known_to(strict_api)
    async with database.connection() as db:
        assert await people.may_drive(db, people.UserId(at_once.id))
        assert not await people.may_drive(db, people.UserId(waiting.id))
        assert not await people.may_drive(db, people.UserId(uuid4()))


async def test_a_passenger_becomes_a_driver_with_a_drivers_token(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana = await Someone().known_to(api)
    answer = await api.get("/v1/me", headers=bearer(["passenger", "driver"], ana.id))
    assert answer.json()["driver"]["approval"] == "approved"
    async with database.connection() as db:
        user = await people.get_user(db, people.UserId(ana.id))
    assert set(user.roles) == {"passenger", "driver"}


async def test_a_borrowed_role_is_not_kept(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Someone().known_to(api)
    assert (await api.get("/v1/users", headers=bearer("operator", ana.id))).status_code == 200
    async with database.connection() as db:
        assert (await people.get_user(db, people.UserId(ana.id))).roles == ("passenger",)


async def test_other_domains_learn_names_and_languages_of_many_at_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana, joao, nobody = Someone(), Someone(), people.UserId(uuid4())
    await ana.change(api, name="Ana", language="en")
    await joao.change(api, name="João")
    async with database.connection() as db:
        found = await people.get_users(db, [people.UserId(ana.id), people.UserId(joao.id), nobody])
    assert {user.id: (user.name, user.language) for user in found.values()} == {
        ana.id: ("Ana", "en"),
        joao.id: ("João", "pt-BR"),
    }
