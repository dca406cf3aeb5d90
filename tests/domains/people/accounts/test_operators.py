"""Operators read and list accounts, set roles and sign users out."""

from uuid import uuid4

import asyncpg
import httpx
import pytest

from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.people.person import Person, actions_on, may_drive, sign_in
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


async def decide_roles(
    api: httpx.AsyncClient, person: Person, operator: Person, *roles: str
) -> httpx.Response:
    path = f"/v1/users/{person.id}/roles"
    return await api.put(path, headers=operator.headers, json={"roles": roles})


async def test_users_can_read_only_themselves(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    for headers in (ana.headers, bearer("operator"), bearer("service")):
        answer = await api.get(f"/v1/users/{ana.id}", headers=headers)
        assert answer.json()["email"] == ana.email
    for headers in (bearer("passenger"), bearer("driver"), bearer("worker")):
        there = await api.get(f"/v1/users/{ana.id}", headers=headers)
        missing = await api.get(f"/v1/users/{uuid4()}", headers=headers)
        assert there.status_code == missing.status_code == 404
        assert there.json()["detail"] == missing.json()["detail"]
    assert (await api.get("/v1/users/me-too", headers=ana.headers)).status_code == 422


async def test_list_has_no_gaps_or_repeats_between_pages(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    drivers = [await Person("driver").known_to(strict_api) for _ in range(5)]
    query: dict[str, str | int] = {"role": "driver", "approval": "pending", "limit": 2}
    seen: list[str] = []
    while True:
        answer = await strict_api.get("/v1/users", params=query, headers=bearer("operator"))
        page = answer.json()
        assert len(page["items"]) <= 2
        assert {item["driver"]["approval"] for item in page["items"]} <= {"pending"}
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == sorted(set(seen))
    assert {str(driver.id) for driver in drivers} <= set(seen)


async def test_full_last_page_has_no_cursor(api: httpx.AsyncClient, database: Database) -> None:
    await Person("worker").known_to(api)
    async with database.connection() as db:
        last = await db.fetch("SELECT id FROM users WHERE 'worker' = ANY (roles) ORDER BY id DESC LIMIT 2")
    after = {"after": str(last[1]["id"])} if len(last) > 1 else {}
    answer = await api.get(
        "/v1/users", params={"role": "worker", "limit": 1, **after}, headers=bearer("operator")
    )
    assert [item["id"] for item in answer.json()["items"]] == [str(last[0]["id"])]
    assert answer.json()["next"] is None


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 101}, {"role": "king"}, {"approval": "maybe"}, {"after": "x"}]
)
async def test_invalid_list_parameters_are_refused(
    api: httpx.AsyncClient, query: dict[str, str | int]
) -> None:
    answer = await api.get("/v1/users", params=query, headers=bearer("operator"))
    assert answer.status_code == 422


async def test_sign_out_revokes_every_token(api: httpx.AsyncClient) -> None:
    ana = await Person().known_to(api)
    elsewhere = bearer("passenger", ana.id)
    assert (await api.post("/v1/me/sign-out", headers=ana.headers)).status_code == 204
    for headers in (ana.headers, elsewhere):
        await until(lambda headers=headers: _is_revoked(api, headers))
    assert (await api.get("/v1/me", headers=bearer("passenger", ana.id))).status_code == 200


async def test_sign_out_by_an_operator_is_audited(api: httpx.AsyncClient, database: Database) -> None:
    ana, operator = await Person().known_to(api), Person("operator")
    answer = await api.post(f"/v1/users/{ana.id}/sign-out", headers=operator.headers)
    assert answer.status_code == 204
    await until(lambda: _is_revoked(api, ana.headers))
    assert await actions_on(database, ana) == [(operator.id, "tokens_revoked")]
    assert (await api.post(f"/v1/users/{uuid4()}/sign-out", headers=operator.headers)).status_code == 404


async def _is_revoked(api: httpx.AsyncClient, headers: dict[str, str]) -> bool:
    return (await api.get("/v1/me", headers=headers)).json().get("code") == "token_revoked"


async def test_removed_role_is_gone_from_tokens_and_sign_ins(
    api: httpx.AsyncClient, database: Database
) -> None:
    former, operator = Person("operator"), Person("operator")
    await former.with_password(api)
    before = (await sign_in(api, former.email)).json()["access_token"]
    answer = await decide_roles(api, former, operator, "passenger")
    assert (answer.status_code, answer.json()["roles"]) == (200, ["passenger"])

    async def old_token_is_refused() -> bool:
        answer = await api.get("/v1/users", headers={"authorization": f"Bearer {before}"})
        return answer.status_code == 401

    await until(old_token_is_refused)
    after = (await sign_in(api, former.email)).json()["access_token"]
    assert (await api.get("/v1/users", headers={"authorization": f"Bearer {after}"})).status_code == 403
    assert (operator.id, "roles_decided") in await actions_on(database, former)


async def test_new_driver_role_adds_a_driver_profile(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    person, operator = await Person().known_to(strict_api), Person("operator")
    answer = await decide_roles(strict_api, person, operator, "passenger", "driver")
    assert answer.json()["roles"] == ["driver", "passenger"]
    assert answer.json()["driver"]["approval"] == "pending"
    assert not await may_drive(database, person)


async def test_driver_role_cannot_be_removed(api: httpx.AsyncClient) -> None:
    driver, operator = await Person("driver").known_to(api), Person("operator")
    answer = await decide_roles(api, driver, operator, "passenger")
    assert (answer.status_code, answer.json()["code"]) == (409, "driver_role_stays")
    kept = await api.get(f"/v1/users/{driver.id}", headers=operator.headers)
    assert kept.json()["roles"] == ["driver"]


@pytest.mark.parametrize("roles", [[], ["king"], "operator", [None], None])
async def test_invalid_roles_are_refused(api: httpx.AsyncClient, roles: object) -> None:
    person, operator = await Person().known_to(api), Person("operator")
    answer = await api.put(f"/v1/users/{person.id}/roles", headers=operator.headers, json={"roles": roles})
    assert answer.status_code == 422
    assert (await decide_roles(api, Person(), operator, "passenger")).status_code == 404


async def test_constraint_keeps_the_driver_role(api: httpx.AsyncClient, database: Database) -> None:
    driver = await Person("driver").known_to(api)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with database.transaction() as db:
            await db.execute("UPDATE users SET roles = '{passenger}' WHERE id = $1", driver.id)
    passenger = await Person().known_to(api)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with database.transaction() as db:
            await db.execute("INSERT INTO drivers (user_id, approval) VALUES ($1, 'approved')", passenger.id)
