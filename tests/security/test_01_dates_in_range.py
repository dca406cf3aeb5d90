"""Finding 1: one worker's date failed availability and booking of a service for everybody."""

from uuid import uuid4

import httpx

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import ALL_WEEK, open_clinic


async def test_a_rule_until_the_year_9999_blocks_no_other_worker(
    api: httpx.AsyncClient, parts: Parts
) -> None:
    clinic, account = await open_clinic(api, parts), uuid4()
    by = bearer("worker", account)
    await clinic.api.get("/v1/me", headers=by)
    other = await clinic.worker(user_id=str(account))
    rules = [rule | {"valid_to": "9999-12-31"} for rule in ALL_WEEK]
    answer = await clinic.send("PUT", f"/workers/{other}/rules", rules, by=by)
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    assert (error["where"], error["code"]) == ("body.0.valid_to", "date_implausible")
    assert {slot["worker_id"] for slot in await clinic.slots(worker_id=None)} == {
        str(clinic.worker_id),
        str(other),
    }
    await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=None)
