"""`availability/explain` does not tell a passenger the shifts that `/hours` refuses."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import Clinic, moment, open_clinic

HOURS_FIELDS = {"day", "shifts", "closed_by", "holiday", "before", "after", "in_the_way"}


@pytest.fixture
async def clinic(api: httpx.AsyncClient, parts: Parts) -> Clinic:
    return await open_clinic(api, parts)


async def explained(clinic: Clinic, clock: str, *, by: dict[str, str]) -> dict[str, Any]:
    answer = await clinic.send(
        "GET",
        "/availability/explain",
        by=by,
        service_id=clinic.service_id,
        worker_id=clinic.worker_id,
        starts_at=clinic.at(clock),
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def fields_of(value: Any) -> set[str]:
    """All names of fields in the value, at any depth."""
    if isinstance(value, list):
        return set[str]().union(*map(fields_of, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        return {str(name) for name in value} | fields_of(list(value.values()))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return set()


async def test_passenger_learns_the_reason_and_free_slots(clinic: Clinic) -> None:
    passenger = bearer("passenger", uuid4())
    hours = await clinic.send("GET", f"/workers/{clinic.worker_id}/hours", by=passenger)
    assert hours.status_code == 403
    await clinic.booked(uuid4(), clinic.at("09:00"))
    for clock, code in {"07:00": "outside_hours", "11:10": "off_grid", "09:00": "busy"}.items():
        found = await explained(clinic, clock, by=passenger)
        (worker,) = found["workers"]
        assert {reason["code"] for reason in worker["reasons"]} == {code}
        assert not found["offered"]
        nearest = moment(found["alternatives"][0]["starts_at"])
        assert nearest - moment(clinic.at("07:00")) <= timedelta(hours=5)
        assert not fields_of(found) & HOURS_FIELDS


async def test_worker_reads_hours_of_its_own_agenda_only(clinic: Clinic) -> None:
    account = uuid4()
    worker = bearer("worker", account)
    await clinic.api.get("/v1/me", headers=worker)
    assert not fields_of(await explained(clinic, "07:00", by=worker)) & HOURS_FIELDS
    own = replace(clinic, worker_id=await clinic.worker(user_id=str(account)))
    for by in (worker, bearer("operator", clinic.operator)):
        assert {"day", "shifts"} <= fields_of(await explained(own, "07:00", by=by))
