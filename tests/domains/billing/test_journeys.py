"""From the end of a ride to its payment, with all roles running."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.domains import billing
from catraca.platform.database.invariants import check_invariants
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.billing.till import Till
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.roles import own_parts, working

CREW = ["relay", "dispatcher", "housekeeper", "notifier"]
# Offers are made by the tests.
BY_HAND = {
    "offers_at_once": 0,
    "commission_basis_points": 1500,
    "pix_key": "caixa@coop.example",
    "pix_name": "Cooperativa",
    "pix_city": "Belem",
}


@pytest.fixture(params=[None, timedelta(milliseconds=200)], ids=["in time", "late"])
async def parts(stack: Stack, settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings, payment_timeout=request.param, **BY_HAND) as parts:
        yield parts


async def test_completed_ride_is_charged_and_paid(parts: Parts) -> None:
    """In time or late: the event opens the charge, a timer ends its time, and the driver confirms."""
    async with open_till(parts) as till:
        ride_id, driver_id = await till.completed()
        await until(lambda: _stands(till, ride_id, expected_states(parts)))
        answer = await till.confirm(ride_id, driver_id)
        assert (answer.status_code, answer.json()["status"]) == (200, "PAID")
        charge = await till.charge_row(ride_id)
        assert await till.balance_cents(driver_id) == (charge["amount_cents"] * 1500 + 5000) // 10_000
        await check_paid(till, parts, ride_id, driver_id)


async def test_completed_ride_is_paid_by_pix(parts: Parts) -> None:
    """The passenger pays the code, in time or late; an operator finds its reference on the statement."""
    passenger_id = uuid4()
    async with open_till(parts) as till:
        ride_id, driver_id = await till.completed(passenger_id)
        await until(lambda: _stands(till, ride_id, expected_states(parts)))
        headers = bearer("passenger", passenger_id)
        pix = (await till.api.get(f"/v1/rides/{ride_id}/charge/pix", headers=headers)).json()
        found = await till.api.get(f"/v1/pix-codes/{pix['reference']}/charge", headers=till.operator)
        body = {"reference": f"E{uuid4().hex}"[:32], "amount_cents": pix["amount_cents"]}
        path = f"/v1/charges/{found.json()['charge_id']}/captures"
        answer = await till.api.post(path, headers=till.operator, json=body)
        assert (answer.status_code, answer.json()["charge"]["status"]) == (201, "PAID")
        fare = pix["amount_cents"]
        assert await till.balance_cents(driver_id) == (fare * 1500 + 5000) // 10_000 - fare
        await check_paid(till, parts, ride_id, driver_id)


@asynccontextmanager
async def open_till(parts: Parts) -> AsyncIterator[Till]:
    """A till beside all roles that work on charges."""
    async with served(parts) as serving, serving.client() as api, working(parts, CREW):
        yield Till(api, parts.database)


def is_late(parts: Parts) -> bool:
    return parts.settings.billing.payment_timeout is not None


def expected_states(parts: Parts) -> tuple[str, str]:
    return ("PAYMENT_EXPIRED", "EXPIRED") if is_late(parts) else ("COMPLETED", "PENDING")


async def check_paid(till: Till, parts: Parts, ride_id: UUID, driver_id: UUID) -> None:
    """Ride and charge are paid, the driver is notified, and every rule holds."""
    assert await till.states(ride_id) == ("PAID", "PAID")
    late = ["ride.payment_expired"] if is_late(parts) else []
    await until(lambda: _was_notified(till, driver_id, ["ride.completed", *late, "ride.paid"]))
    verdicts = await check_invariants(parts.database, billing.INVARIANTS)
    assert [verdict for verdict in verdicts if verdict.state != "held"] == []


async def _stands(till: Till, ride_id: UUID, expected: tuple[str, str]) -> bool:
    if not await till.sql("SELECT FROM charges WHERE ride_id = $1", ride_id):
        return False
    return await till.states(ride_id) == expected


async def _was_notified(till: Till, driver_id: UUID, notices: list[str]) -> bool:
    rows = await till.sql("SELECT type FROM notifications WHERE user_id = $1 ORDER BY seq", driver_id)
    return [row["type"] for row in rows][-len(notices) :] == notices
