"""One fleet of processes for the journeys in this folder: starting it takes longer than most of them.

It ends with the folder's last test of a stack, because other journeys consume from the same broker's queues.
"""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.conftest import bearer
from tests.journeys.fleet.processes import MatchingFleet, matching_fleet
from tests.servers import Stack


@pytest.fixture(scope="package")
async def fleet(stack: Stack, broker_url: str | None) -> AsyncIterator[MatchingFleet]:
    async with matching_fleet(stack, broker_url) as fleet:
        await until_notifier_works(fleet)
        yield fleet


@pytest.fixture(scope="module")
async def here(fleet: MatchingFleet) -> AsyncIterator[MatchingFleet]:
    """The fleet; when the module's last test has ended, everything is handled and every invariant holds."""
    yield fleet
    await fleet.until(fleet.is_quiet)
    wrong = await fleet.wrong()
    assert not wrong, "\n".join(wrong)


async def until_notifier_works(fleet: MatchingFleet) -> None:
    """An offer that expires before the notifier has started is never notified."""
    headers = bearer("passenger", uuid4())
    answer = await fleet.patient.post(
        "/v1/rides", json={"pickup_lat": 1.0, "pickup_lon": 1.0}, headers=headers
    )
    path = f"/v1/rides/{answer.json()['ride_id']}/cancel"
    await fleet.patient.post(path, json={"reason": "changed_plans"}, headers=headers)

    async def is_notified() -> bool:
        answer = await fleet.patient.get("/v1/notifications", headers=headers)
        return bool(answer.json()["items"])

    await fleet.until(is_notified)
