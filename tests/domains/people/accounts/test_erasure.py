"""Export and erasure of personal data."""

import asyncio
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains import people
from catraca.domains.people.accounts import service
from catraca.domains.people.model import UserId
from catraca.platform.database import Database, Db
from tests.conftest import bearer
from tests.domains.communities.places import post_community
from tests.domains.people.person import Person, link_for, sign_in, use_link
from tests.servers import until

TRACES = ("Severino", "severino", "98765", "Cronos", "ABC1D23", "argon2", "Seguro")


async def a_driver_with_everything(api: httpx.AsyncClient) -> Person:
    driver, home = Person("driver"), (await post_community(api))["community_id"]
    await driver.with_address(api, f"severino.{driver.id}@example.com")
    changed = await driver.change(
        api,
        name="Severino Lacerda",
        email=f"severino.new.{driver.id}@example.com",
        phone="+5571987654321",
        language="en",
        driver={"vehicle": "Fiat Cronos", "plate": "ABC1D23", "home_community_id": home},
    )
    assert changed.status_code == 200
    verdict = {"approval": "suspended", "reason": "Seguro vencido"}
    await api.put(f"/v1/drivers/{driver.id}/approval", headers=bearer("operator"), json=verdict)
    await use_link(api, await link_for(api, driver))
    await link_for(api, driver)
    driver.headers = bearer("driver", driver.id)
    return driver


async def everything_on(database: Database, user_id: UUID) -> str:
    async with database.connection() as db:
        rows = [
            await db.fetch("SELECT u::text AS row FROM users u WHERE id = $1", user_id),
            await db.fetch("SELECT c::text AS row FROM email_changes c WHERE user_id = $1", user_id),
            await db.fetch("SELECT d::text AS row FROM drivers d WHERE user_id = $1", user_id),
            await db.fetch("SELECT l::text AS row FROM password_links l WHERE user_id = $1", user_id),
            await db.fetch("SELECT a::text AS row FROM audit_log a WHERE subject_id = $1", str(user_id)),
        ]
    return " ".join(row["row"] for part in rows for row in part)


async def test_export_contains_all_personal_data(api: httpx.AsyncClient) -> None:
    driver = await a_driver_with_everything(api)
    answer = await api.get("/v1/me/export", headers=driver.headers)
    assert answer.json()["id"] == str(driver.id)
    kept = answer.json()["sections"]["people"]
    assert kept["name"] == "Severino Lacerda"
    assert kept["phone"] == "+5571987654321"
    assert kept["email_pending"] == f"severino.new.{driver.id}@example.com"
    assert kept["has_password"] is True
    assert kept["driver"]["plate"] == "ABC1D23"
    assert kept["driver"]["approval_reason"] == "Seguro vencido"
    assert len(kept["password_links"]) == 2
    assert "argon2" not in answer.text
    actions = [entry["action"] for entry in answer.json()["sections"]["audit"]]
    assert actions == ["password_link_issued", "password_link_issued", "driver_suspended", "email_confirmed"]


async def test_operator_export_is_the_same_and_audited(api: httpx.AsyncClient, database: Database) -> None:
    ana, operator = await Person().known_to(api), Person("operator")
    own = await api.get("/v1/me/export", headers=ana.headers)
    by_operator = await api.get(f"/v1/users/{ana.id}/export", headers=operator.headers)
    assert by_operator.json()["sections"]["people"] == own.json()["sections"]["people"]
    assert [entry["action"] for entry in by_operator.json()["sections"]["audit"]] == ["person_exported"]
    async with database.connection() as db:
        audited = await db.fetch("SELECT actor_id, action FROM audit_log WHERE subject_id = $1", str(ana.id))
    assert [tuple(row.values()) for row in audited] == [(operator.id, "person_exported")]
    assert (await api.get(f"/v1/users/{uuid4()}/export", headers=operator.headers)).status_code == 404


@pytest.mark.parametrize("by", ["themselves", "an operator"])
async def test_erased_user_leaves_no_trace(api: httpx.AsyncClient, database: Database, by: str) -> None:
    driver = await a_driver_with_everything(api)
    before = await everything_on(database, driver.id)
    assert all(trace in before for trace in TRACES), "the tables have the data before"
    if by == "themselves":
        answer = await api.delete("/v1/me", headers=driver.headers)
    else:
        answer = await api.delete(f"/v1/users/{driver.id}", headers=bearer("operator"))
    assert answer.status_code == 204
    after = await everything_on(database, driver.id)
    assert not any(trace in after for trace in TRACES)
    async with database.connection() as db:
        user = await people.get_user(db, people.UserId(driver.id))
        assert user.erased_at is not None
        assert not await people.may_drive(db, people.UserId(driver.id))
        assert await db.fetchval("SELECT count(*) FROM password_links WHERE user_id = $1", driver.id) == 0


async def test_stored_responses_are_erased_with_the_user(api: httpx.AsyncClient, database: Database) -> None:
    ana, rui = Person(), Person()
    for person in (ana, rui):
        keyed = person.headers | {"idempotency-key": "1"}
        await api.patch("/v1/me", headers=keyed, json={"name": f"Ana {person.id}"})

    async def kept(person: Person) -> int:
        async with database.connection() as db:
            return await db.fetchval(
                "SELECT count(*) FROM idempotency_keys WHERE convert_from(body, 'UTF8') LIKE $1",
                f"%Ana {person.id}%",
            )

    assert [await kept(ana), await kept(rui)] == [1, 1]
    assert (await api.delete("/v1/me", headers=ana.headers)).status_code == 204
    assert [await kept(ana), await kept(rui)] == [0, 1]


async def test_erased_user_cannot_return(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().with_password(api)
    ana.headers = bearer("passenger", ana.id)
    assert (await api.delete("/v1/me", headers=ana.headers)).status_code == 204
    at_once = await api.get("/v1/me", headers=ana.headers)
    assert at_once.status_code == 401, "also while the token's standing is cached"
    assert (await ana.change(api, name="Ana")).status_code == 401

    for role in ("passenger", "driver"):
        newer = bearer(role, ana.id)

        async def refused(headers: dict[str, str] = newer) -> bool:
            return (await api.get("/v1/users", headers=headers)).json()["code"] == "token_revoked"

        await until(refused)
    assert (await sign_in(api, ana.email)).status_code == 401
    async with database.connection() as db:
        assert (await people.get_user(db, people.UserId(ana.id))).erased_at is not None
        assert await db.fetchval("SELECT count(*) FROM drivers WHERE user_id = $1", ana.id) == 0


async def test_erased_address_is_free_for_another_user(api: httpx.AsyncClient) -> None:
    ana, other = await Person().with_email(api), Person()
    await api.delete("/v1/me", headers=ana.headers)
    await other.with_address(api, ana.email)


async def test_second_erasure_keeps_the_first_date(api: httpx.AsyncClient, database: Database) -> None:
    ana, operator = await Person().known_to(api), Person("operator")
    dates: list[str] = []
    for _ in range(2):
        assert (await api.delete(f"/v1/users/{ana.id}", headers=operator.headers)).status_code == 204
        read = await api.get(f"/v1/users/{ana.id}", headers=operator.headers)
        dates.append(read.json()["erased_at"])
    assert dates[0] == dates[1] is not None
    assert (await api.delete(f"/v1/users/{uuid4()}", headers=operator.headers)).status_code == 404


async def test_erased_user_is_not_found_by_operators(api: httpx.AsyncClient) -> None:
    driver, operator = await Person("driver").known_to(api), bearer("operator")
    await api.delete(f"/v1/users/{driver.id}", headers=operator)
    answers = [
        await api.post(f"/v1/users/{driver.id}/password-link", headers=operator),
        await api.post(f"/v1/users/{driver.id}/sign-out", headers=operator),
        await api.put(f"/v1/drivers/{driver.id}/approval", headers=operator, json={"approval": "approved"}),
    ]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    listed = await api.get("/v1/users", headers=operator, params={"after": str(UUID(int=driver.id.int - 1))})
    assert str(driver.id) not in listed.text


async def test_changes_during_an_erasure_leave_no_trace(api: httpx.AsyncClient, database: Database) -> None:
    for _ in range(8):
        driver, operator = await Person("driver").known_to(api), bearer("operator")
        await asyncio.gather(
            api.delete(f"/v1/users/{driver.id}", headers=operator),
            driver.change(api, name="Severino", driver={"vehicle": "Fiat Cronos", "plate": "ABC1D23"}),
            api.post(f"/v1/users/{driver.id}/password-link", headers=operator),
            api.put(
                f"/v1/drivers/{driver.id}/approval",
                headers=operator,
                json={"approval": "refused", "reason": "Seguro vencido"},
            ),
        )
        left = await everything_on(database, driver.id)
        assert not any(trace in left for trace in TRACES)
        async with database.connection() as db:
            assert await db.fetchval("SELECT count(*) FROM password_links WHERE user_id = $1", driver.id) == 0


async def test_all_sections_are_erased_together_or_none(database: Database) -> None:
    ana = UserId(uuid4())
    await database.run(
        lambda db: service.ensure_user(db, ana, roles=["passenger"], driver_approval="automatic")
    )
    erased: list[UserId] = []

    class RideOpen(Exception):
        pass

    async def export(db: Db, user_id: UserId) -> object:
        return {"rides": 3}

    async def erase(db: Db, user_id: UserId) -> None:
        erased.append(user_id)

    async def refuse(db: Db, user_id: UserId) -> None:
        raise RideOpen

    rides = people.PersonalData("rides", export, erase)
    refusing = people.PersonalData("stubborn", export, refuse)
    async with database.connection() as db:
        sections = await service.export_user(db, ana, [people.PERSONAL_DATA, rides], by=ana)
    assert list(sections) == ["people", "rides"]
    with pytest.raises(RideOpen):
        await database.run(lambda db: service.erase_user(db, ana, [people.PERSONAL_DATA, refusing], by=ana))
    async with database.connection() as db:
        assert (await people.get_user(db, ana)).erased_at is None
    await database.run(lambda db: service.erase_user(db, ana, [people.PERSONAL_DATA, rides], by=ana))
    assert erased == [ana]


async def test_constraint_keeps_erased_users_empty(api: httpx.AsyncClient, database: Database) -> None:
    ana = await Person().known_to(api)
    await api.delete(f"/v1/users/{ana.id}", headers=bearer("operator"))
    for change in ("name = 'Ana'", "tokens_valid_after = NULL", "password_hash = 'x'"):
        with pytest.raises(Exception, match="erased_users_hold_nothing"):
            async with database.transaction() as db:
                await db.execute(f"UPDATE users SET {change} WHERE id = $1", ana.id)
