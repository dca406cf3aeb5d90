"""Users added in batches."""

from uuid import UUID, uuid4

from catraca.domains import people
from catraca.domains.people import NewUser, UserId
from catraca.platform.database import Database
from tests.domains.people.person import Person


def newcomer(email: str | None = None, *, user_id: UUID | None = None, language: str = "pt-BR") -> NewUser:
    user_id = user_id or uuid4()
    return NewUser(
        id=UserId(user_id),
        role="passenger",
        name="Ana",
        email=email or f"{user_id}@example.com",
        language=language,  # type: ignore[arg-type]
    )


async def events_of(database: Database, *newcomers: NewUser) -> list[dict[str, object]]:
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT body->>'event_type' AS key, body->>'signed_up' AS signed_up FROM outbox"
            " WHERE aggregate_id = ANY ($1::uuid[])",
            [one.id for one in newcomers],
        )
    return [dict(row) for row in rows]


async def test_new_users_are_added_and_published_once(database: Database) -> None:
    both = [newcomer(language="en"), newcomer()]
    assert await database.run(lambda db: people.add_users(db, both)) == {one.id for one in both}
    async with database.connection() as db:
        found = await people.get_users(db, [one.id for one in both])
    assert [found[one.id].language for one in both] == ["en", "pt-BR"]
    assert [found[one.id].roles for one in both] == [("passenger",)] * 2
    assert await events_of(database, *both) == [{"key": "user.created", "signed_up": "true"}] * 2
    assert await database.run(lambda db: people.add_users(db, both)) == set()
    assert await database.run(lambda db: people.add_users(db, [])) == set()
    assert len(await events_of(database, *both)) == 2


async def test_taken_ids_and_addresses_are_left_out(api, database) -> None:
    rui = await Person().with_email(api)
    fresh, rival = newcomer(), newcomer()
    users = [
        newcomer(rui.email.upper()),
        newcomer(user_id=rui.id),
        fresh,
        newcomer(fresh.email.title()),
        rival,
    ]
    new = await database.run(lambda db: people.add_users(db, users))
    assert rival.id in new
    assert len(new) == 2
    assert len(new & {users[2].id, users[3].id}) == 1, "one of two users gets the address"
    assert len(await events_of(database, *(one for one in users if one.id != rui.id))) == 2
