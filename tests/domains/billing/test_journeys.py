"""From the end of a ride to its payment, with all roles running."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

import pytest

from catraca.domains import billing
from catraca.platform.database.invariants import check_invariants
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.domains.billing.till import Till
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.roles import own_parts, working

CREW = ["relay", "dispatcher", "housekeeper", "notifier"]
# Offers are made by the tests.
BY_HAND = {"offers_at_once": 0, "commission_basis_points": 1500}


@pytest.fixture(params=[None, timedelta(milliseconds=200)], ids=["in time", "late"])
async def parts(stack: Stack, settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings, payment_timeout=request.param, **BY_HAND) as parts:
        yield parts


async def test_completed_ride_is_charged_and_paid(parts: Parts) -> None:
    """In time or late: the event opens the charge, a timer ends its time, and the driver confirms."""
    is_late = parts.settings.billing.payment_timeout is not None
    async with served(parts) as serving, serving.client() as api, working(parts, CREW):
        till = Till(api, parts.database)
        ride_id, driver_id = await till.completed()
        expected = ("PAYMENT_EXPIRED", "EXPIRED") if is_late else ("COMPLETED", "PENDING")
        await until(lambda: _stands(till, ride_id, expected))
        answer = await till.confirm(ride_id, driver_id)
        assert (answer.status_code, answer.json()["status"]) == (200, "PAID")
        assert await till.states(ride_id) == ("PAID", "PAID")
        charge = await till.charge_row(ride_id)
        assert await till.balance_cents(driver_id) == (charge["amount_cents"] * 1500 + 5000) // 10_000
        notices = (
            ["ride.completed", "ride.payment_expired", "ride.paid"]
            if is_late
            else ["ride.completed", "ride.paid"]
        )
        await until(lambda: _was_notified(till, driver_id, notices))
        verdicts = await check_invariants(parts.database, billing.INVARIANTS)
        assert [verdict for verdict in verdicts if verdict.state != "held"] == []


async def _stands(till: Till, ride_id: UUID, expected: tuple[str, str]) -> bool:
    if not await till.sql("SELECT FROM charges WHERE ride_id = $1", ride_id):
        return False
    return await till.states(ride_id) == expected


async def _was_notified(till: Till, driver_id: UUID, notices: list[str]) -> bool:
    rows = await till.sql("SELECT type FROM notifications WHERE user_id = $1 ORDER BY seq", driver_id)
    return [row["type"] for row in rows][-len(notices) :] == notices
