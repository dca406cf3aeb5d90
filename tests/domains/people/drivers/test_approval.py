"""Approval of drivers by operators."""

import asyncio
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.platform.database import Database
from tests.domains.communities.places import post_community
from tests.domains.people.person import Person, actions_on, may_drive
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def decide(
    api: httpx.AsyncClient, driver_id: UUID, operator: Person, **verdict: object
) -> httpx.Response:
    return await api.put(f"/v1/drivers/{driver_id}/approval", headers=operator.headers, json=verdict)


async def test_operator_decides_whether_a_driver_may_drive(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    driver, operator = await Person("driver").known_to(strict_api), Person("operator")
    assert (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]["approval"] == "pending"
    assert (await decide(strict_api, driver.id, operator, approval="approved")).status_code == 200
    assert await may_drive(database, driver)
    answer = await decide(strict_api, driver.id, operator, approval="suspended", reason="Seguro vencido")
    assert answer.json()["driver"]["approval"] == "suspended"
    assert not await may_drive(database, driver)
    profile = (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]
    assert (profile["approval"], profile["approval_reason"]) == ("suspended", "Seguro vencido")
    assert await actions_on(database, driver) == [
        (operator.id, "driver_approved"),
        (operator.id, "driver_suspended"),
    ]


async def test_another_car_waits_for_a_new_approval(
    strict_api: httpx.AsyncClient, database: Database
) -> None:
    driver, operator = Person("driver"), Person("operator")
    home = (await post_community(strict_api))["community_id"]
    await driver.change(strict_api, driver={"vehicle": "Fiat Uno", "plate": "ABC1D23"})
    await decide(strict_api, driver.id, operator, approval="approved")
    same = await driver.change(strict_api, driver={"vehicle": "Fiat Uno", "home_community_id": home})
    assert same.json()["driver"]["approval"] == "approved"
    other = await driver.change(strict_api, driver={"plate": "XYZ9876"})
    assert other.json()["driver"]["approval"] == "pending"
    assert not await may_drive(database, driver)


async def test_another_car_may_drive_without_required_approval(
    api: httpx.AsyncClient, database: Database
) -> None:
    driver = Person("driver")
    await driver.change(api, driver={"plate": "ABC1D23"})
    await driver.change(api, driver={"plate": "XYZ9876"})
    assert await may_drive(database, driver)


async def test_concurrent_changes_cannot_keep_the_approval(
    strict_api: httpx.AsyncClient,
) -> None:
    operator, home = Person("operator"), (await post_community(strict_api))["community_id"]
    for number in range(6):
        driver = Person("driver")
        await driver.change(strict_api, driver={"plate": f"OLD{number}A11"})
        await decide(strict_api, driver.id, operator, approval="approved")
        await asyncio.gather(
            driver.change(strict_api, driver={"plate": f"NEW{number}A11"}),
            driver.change(strict_api, driver={"vehicle": "Fiat Uno"}),
            driver.change(strict_api, driver={"home_community_id": home}),
        )
        profile = (await strict_api.get("/v1/me", headers=driver.headers)).json()["driver"]
        assert (profile["plate"], profile["approval"]) == (f"NEW{number}A11", "pending")


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
async def test_invalid_approval_is_refused(api: httpx.AsyncClient, verdict: dict[str, object]) -> None:
    driver = await Person("driver").known_to(api)
    assert (await decide(api, driver.id, Person("operator"), **verdict)).status_code == 422


async def test_only_drivers_can_be_approved(api: httpx.AsyncClient) -> None:
    passenger, operator = await Person().known_to(api), Person("operator")
    for user_id in (passenger.id, uuid4()):
        answer = await decide(api, user_id, operator, approval="approved")
        assert answer.status_code == 404
