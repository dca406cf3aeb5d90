"""What operators do to people: read, list, approve, sign out; and that it is written down."""

import asyncio
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains import people
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.communities.places import fenced
from tests.domains.people.someone import Someone, sign_in
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


async def decide(
    api: httpx.AsyncClient, driver_id: UUID, operator: Someone, **verdict: object
) -> httpx.Response:
    return await api.put(f"/v1/drivers/{driver_id}/approval", headers=operator.headers, json=verdict)


async def decide_roles(
    api: httpx.AsyncClient, person: Someone, operator: Someone, *roles: str
) -> httpx.Response:
    path = f"/v1/users/{person.id}/roles"
    return await api.put(path, headers=operator.headers, json={"roles": roles})


async def may_drive(database: Database, driver: Someone) -> bool:
    async with database.connection() as db:
        return await people.may_drive(db, people.UserId(driver.id))


async def actions_on(database: Database, someone: Someone) -> list[tuple[UUID, str]]:
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT actor_id, action FROM audit_log WHERE subject_id = $1 ORDER BY at", str(someone.id)
        )
    return [(row["actor_id"], row["action"]) for row in rows]


async def test_an_operators_verdict_decides_who_may_drive(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    driver, operator = await Someone("driver").known_to(strict_api), Someone("operator")
    assert (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]["approval"] == "pending"
    assert (await decide(strict_api, driver.id, operator, approval="approved")).status_code == 200
    assert await may_drive(database, driver)
    answer = await decide(strict_api, driver.id, operator, approval="suspended", reason="Seguro vencido")
    assert answer.json()["driver"]["approval"] == "suspended"
    assert not await may_drive(database, driver)
    mine = (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]
    assert (mine["approval"], mine["approval_reason"]) == ("suspended", "Seguro vencido")
    assert await actions_on(database, driver) == [
        (operator.id, "driver_approved"),
        (operator.id, "driver_suspended"),
    ]


async def test_another_car_waits_for_approval_again(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    driver, operator = Someone("driver"), Someone("operator")
    home = (await fenced(strict_api))["community_id"]
    await driver.change(strict_api, driver={"vehicle": "Fiat Uno", "plate": "ABC1D23"})
    await decide(strict_api, driver.id, operator, approval="approved")
    same = await driver.change(strict_api, driver={"vehicle": "Fiat Uno", "home_community_id": home})
    assert same.json()["driver"]["approval"] == "approved"
    other = await driver.change(strict_api, driver={"plate": "XYZ9876"})
    assert other.json()["driver"]["approval"] == "pending"
    assert not await may_drive(database, driver)


async def test_another_car_drives_on_where_no_approval_is_required(
    api: httpx.AsyncClient, database: Database
) -> None:
    driver = Someone("driver")
    await driver.change(api, driver={"plate": "ABC1D23"})
    await driver.change(api, driver={"plate": "XYZ9876"})
    assert await may_drive(database, driver)


async def test_changes_made_at_once_cannot_keep_the_old_cars_approval(
    strict_api: httpx.AsyncClient,
) -> None:
    operator, home = Someone("operator"), (await fenced(strict_api))["community_id"]
    for number in range(6):
        driver = Someone("driver")
        await driver.change(strict_api, driver={"plate": f"OLD{number}A11"})
        await decide(strict_api, driver.id, operator, approval="approved")
        await asyncio.gather(
            driver.change(strict_api, driver={"plate": f"NEW{number}A11"}),
            driver.change(strict_api, driver={"vehicle": "Fiat Uno"}),
            driver.change(strict_api, driver={"home_community_id": home}),
        )
        mine = (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]
        assert (mine["plate"], mine["approval"]) == (f"NEW{number}A11", "pending")


@pytest.mark.parametrize(
    "verdict",
    [
        {},
        {"approval": "pending"},
        {"approval": "yes"},
        {"approval": "refused", "reason": "x" * 301},
        {"approval": "refused", "reason": "\n"},
        {"approval": "approved", "by": str(uuid4())},
    ],
)
async def test_a_verdict_of_another_shape_is_refused(
    api: httpx.AsyncClient, verdict: dict[str, object]
) -> None:
    driver = await Someone("driver").known_to(api)
    assert (await decide(api, driver.id, Someone("operator"), **verdict)).status_code == 422


async def test_only_drivers_can_be_approved(api: httpx.AsyncClient) -> None:
    passenger, operator = await Someone().known_to(api), Someone("operator")
    for nobody in (passenger.id, uuid4()):
        answer = await decide(api, nobody, operator, approval="approved")
        assert answer.status_code == 404


async def test_people_read_themselves_and_nobody_else(api: httpx.AsyncClient) -> None:
    ana = await Someone().with_email(api)
    for headers in (ana.headers, bearer("operator"), bearer("service")):
        answer = await api.get(f"/v1/users/{ana.id}", headers=headers)
        assert answer.json()["email"] == ana.email
    for headers in (bearer("passenger"), bearer("driver"), bearer("worker")):
        there = await api.get(f"/v1/users/{ana.id}", headers=headers)
        missing = await api.get(f"/v1/users/{uuid4()}", headers=headers)
        assert there.status_code == missing.status_code == 404
        assert there.json()["detail"] == missing.json()["detail"]
    assert (await api.get("/v1/users/me-too", headers=ana.headers)).status_code == 422


async def test_the_list_is_paged_without_gap_or_repeat(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    drivers = [await Someone("driver").known_to(strict_api) for _ in range(5)]
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


async def test_the_last_page_says_so_even_when_it_is_full(api: httpx.AsyncClient, database: Database) -> None:
    await Someone("worker").known_to(api)
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
async def test_a_wrong_question_to_the_list_is_refused(
    api: httpx.AsyncClient, query: dict[str, str | int]
) -> None:
    answer = await api.get("/v1/users", params=query, headers=bearer("operator"))
    assert answer.status_code == 422


async def test_signing_out_ends_every_token(api: httpx.AsyncClient) -> None:
    ana = await Someone().known_to(api)
    elsewhere = bearer("passenger", ana.id)
    assert (await api.post("/v1/me/sign-out", headers=ana.headers)).status_code == 204
    for headers in (ana.headers, elsewhere):
        await until(lambda headers=headers: _is_revoked(api, headers))
    assert (await api.get("/v1/me", headers=bearer("passenger", ana.id))).status_code == 200


async def test_an_operator_signs_someone_out_and_it_is_audited(
    api: httpx.AsyncClient, database: Database
) -> None:
    ana, operator = await Someone().known_to(api), Someone("operator")
    answer = await api.post(f"/v1/users/{ana.id}/sign-out", headers=operator.headers)
    assert answer.status_code == 204
    await until(lambda: _is_revoked(api, ana.headers))
    assert await actions_on(database, ana) == [(operator.id, "tokens_revoked")]
    assert (await api.post(f"/v1/users/{uuid4()}/sign-out", headers=operator.headers)).status_code == 404


async def _is_revoked(api: httpx.AsyncClient, headers: dict[str, str]) -> bool:
    return (await api.get("/v1/me", headers=headers)).json().get("code") == "token_revoked"


async def test_a_role_taken_away_is_gone_from_tokens_and_sign_ins(
    api: httpx.AsyncClient, database: Database
) -> None:
    former, operator = Someone("operator"), Someone("operator")
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


async def test_a_person_made_a_driver_has_a_drivers_profile(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    person, operator = await Someone().known_to(strict_api), Someone("operator")
    answer = await decide_roles(strict_api, person, operator, "passenger", "driver")
    assert answer.json()["roles"] == ["driver", "passenger"]
    assert answer.json()["driver"]["approval"] == "pending"
    assert not await may_drive(database, person)


async def test_a_driver_stays_a_driver(api: httpx.AsyncClient) -> None:
    driver, operator = await Someone("driver").known_to(api), Someone("operator")
    answer = await decide_roles(api, driver, operator, "passenger")
    assert (answer.status_code, answer.json()["code"]) == (409, "driver_role_stays")
    kept = await api.get(f"/v1/users/{driver.id}", headers=operator.headers)
    assert kept.json()["roles"] == ["driver"]


@pytest.mark.parametrize("roles", [[], ["king"], "operator", [None], None])
async def test_roles_that_are_none_are_refused(api: httpx.AsyncClient, roles: object) -> None:
    person, operator = await Someone().known_to(api), Someone("operator")
    answer = await api.put(f"/v1/users/{person.id}/roles", headers=operator.headers, json={"roles": roles})
    assert answer.status_code == 422
    assert (await decide_roles(api, Someone(), operator, "passenger")).status_code == 404


async def test_the_database_itself_keeps_a_driver_a_driver(
    api: httpx.AsyncClient, database: Database
) -> None:
    driver = await Someone("driver").known_to(api)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with database.transaction() as db:
            await db.execute("UPDATE users SET roles = '{passenger}' WHERE id = $1", driver.id)
    passenger = await Someone().known_to(api)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        async with database.transaction() as db:
            await db.execute("INSERT INTO drivers (user_id, approval) VALUES ($1, 'approved')", passenger.id)
