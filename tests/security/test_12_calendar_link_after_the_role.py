"""Finding 12: a calendar link worked after its worker had lost the role."""

from typing import Literal

import asyncpg
import pytest

from tests.conftest import bearer
from tests.domains.people.person import Person
from tests.security.conftest import AccessHarness

Maker = Literal["worker", "operator"]


async def linked(access: AccessHarness, by: Maker) -> tuple[Person, str, str]:
    """A worker's account, the worker's id, and the path of a calendar link that works."""
    doctor = await Person("worker").known_to(access.api)
    worker_id = await access.new_worker(doctor.id)
    path = await access.link_calendar(worker_id, doctor.headers if by == "worker" else bearer("operator"))
    assert await access.status_of(path) == 200
    return doctor, worker_id, path


async def change_worker(access: AccessHarness, worker_id: str, *, retired: bool) -> None:
    body = {"name": "Ana", "time_zone": "UTC", "retired": retired}
    path = f"/v1/scheduling/workers/{worker_id}"
    changed = await access.api.put(path, json=body, headers=bearer("operator"))
    assert changed.status_code == 200, changed.text


@pytest.mark.parametrize("by", ["worker", "operator"])
async def test_calendar_link_ends_with_the_role(access: AccessHarness, by: Maker) -> None:
    doctor, worker_id, path = await linked(access, by)
    roles = f"/v1/users/{doctor.id}/roles"
    for kept in (["passenger"], ["passenger", "worker"]):
        changed = await access.api.put(roles, json={"roles": kept}, headers=bearer("operator"))
        assert changed.status_code == 200, changed.text
        assert await access.status_of(path) == 404
    # After that, a new link works.
    assert await access.status_of(await access.link_calendar(worker_id, bearer("operator"))) == 200


@pytest.mark.parametrize("by", ["worker", "operator"])
async def test_calendar_link_ends_when_the_worker_is_retired(access: AccessHarness, by: Maker) -> None:
    _, worker_id, path = await linked(access, by)
    await change_worker(access, worker_id, retired=True)
    assert await access.status_of(path) == 404
    refused = await access.api.post(
        f"/v1/scheduling/workers/{worker_id}/calendar-link", headers=bearer("operator")
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "worker_retired")
    await change_worker(access, worker_id, retired=False)
    assert await access.status_of(path) == 404, "the link does not come back with the worker"


async def test_link_of_a_worker_without_account_stays(access: AccessHarness) -> None:
    body = {"name": "Ana", "time_zone": "UTC"}
    made = await access.api.post("/v1/scheduling/workers", json=body, headers=bearer("operator"))
    worker_id = made.json()["worker_id"]
    path = await access.link_calendar(worker_id, bearer("operator"))
    await change_worker(access, worker_id, retired=False)
    assert await access.status_of(path) == 200


async def test_schema_refuses_a_link_of_a_retired_worker(access: AccessHarness) -> None:
    _, worker_id, _ = await linked(access, "worker")
    async with access.parts.database.connection() as db:
        with pytest.raises(asyncpg.CheckViolationError, match="retired_workers_have_no_link"):
            await db.execute("UPDATE subjects SET retired = true WHERE id = $1::text::uuid", worker_id)
