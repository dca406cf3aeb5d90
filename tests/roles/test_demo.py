"""The demo city is inserted into an empty database, once."""

import asyncio
from uuid import uuid4

import pytest

from catraca.domains import people
from catraca.domains.people.drivers.model import clean_plate
from catraca.platform.database import Database
from catraca.platform.lines import clean_email, clean_name
from catraca.roles.demo import DOCTORS, DRIVERS, OPERATOR, PASSENGERS, fill_demo_city
from tests.servers import Stack


@pytest.fixture
async def empty(stack: Stack):
    url = await stack.migrated_database(f"demo-{uuid4()}")
    database = await Database.open(url)
    yield database
    await database.close()


async def test_concurrent_starts_fill_the_city_once(empty: Database) -> None:
    cities = await asyncio.gather(*(fill_demo_city(empty) for _ in range(4)))
    assert all(city.is_here for city in cities)
    again = await fill_demo_city(empty)
    assert (len(again.passengers), len(again.drivers)) == (6, 12)
    async with empty.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM users") == 19
        assert await db.fetchval("SELECT count(*) FROM users WHERE password_hash IS NOT NULL") == 0
        assert [await people.may_drive(db, driver.id) for driver in DRIVERS] == [True] * 12
        assert await db.fetchval("SELECT count(*) FROM subjects") == len(DOCTORS)
        assert await db.fetchval("SELECT count(*) FROM service_subjects") == len(DOCTORS)
        created = await db.fetch("SELECT aggregate_id FROM outbox WHERE routing_key = 'user.created'")
    user_ids = {person.id for person in (OPERATOR, *PASSENGERS, *DRIVERS)}
    assert sorted(row["aggregate_id"] for row in created) == sorted(user_ids)


async def test_database_with_people_gets_no_demo_city(empty: Database) -> None:
    async with empty.transaction() as db:
        await people.ensure_user(db, uuid4(), roles=["operator"], driver_approval="automatic")
    assert not (await fill_demo_city(empty)).is_here
    async with empty.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM users") == 1


def test_demo_people_have_valid_names_and_addresses() -> None:
    for person in (OPERATOR, *PASSENGERS, *DRIVERS):
        assert clean_name(person.name) == person.name
        assert clean_email(person.email) == person.email
        assert person.email.endswith("example.com"), "the domain must not exist"
        assert person.plate is None or clean_plate(person.plate) == person.plate
