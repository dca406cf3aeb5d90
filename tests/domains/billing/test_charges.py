"""Charges of rides: opened once, paid once, expired, paid late."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from catraca.domains.billing.charges.model import MOVES
from catraca.domains.billing.ledger.model import commission_of
from catraca.events import ChargeExpired, ChargeOpened, ChargePaid, RidePaid, RidePaymentExpired
from tests.conftest import bearer
from tests.domains.billing.till import RULES, Till

REFUSED = asyncpg.IntegrityConstraintViolationError


async def kinds_of_events(till: Till, ride_id) -> list[type]:
    kinds = (ChargeOpened, ChargePaid, ChargeExpired, RidePaid, RidePaymentExpired)
    return sorted(
        (type(event) for event in await till.events(ride_id) if isinstance(event, kinds)), key=kinds.index
    )


async def test_completed_ride_is_charged_once(till: Till) -> None:
    ride_id, driver_id = await till.completed()
    for _ in range(2):
        await till.charge(ride_id)
    row = await till.charge_row(ride_id)
    ride = await till.read(ride_id)
    assert (row["status"], row["amount_cents"]) == ("PENDING", ride["final_fare_cents"])
    assert (str(row["payer_id"]), row["payee_id"]) == (ride["passenger_id"], driver_id)
    assert row["expires_at"] - row["opened_at"] == pytest.approx(
        RULES.payment_timeout, abs=timedelta(seconds=5)
    )
    assert await kinds_of_events(till, ride_id) == [ChargeOpened]
    (timer,) = await till.sql("SELECT due_at FROM timers WHERE subject_id = $1", row["id"])
    assert timer["due_at"] == row["expires_at"]


async def test_cash_pays_charge_and_ride_once(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    answers = [await till.confirm(ride_id, driver_id) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    fare = (await till.read(ride_id))["final_fare_cents"]
    commission = commission_of(fare, basis_points=1000)
    assert answers[0].json() | {"status": "PAID", "commission_cents": commission} == answers[0].json()
    assert await till.states(ride_id) == ("PAID", "PAID")
    assert await till.balance_cents(driver_id) == commission
    assert await kinds_of_events(till, ride_id) == [ChargeOpened, ChargePaid, RidePaid]
    assert not await till.sql(
        "SELECT FROM timers WHERE kind = 'billing.charge_due' AND subject_id = $1",
        (await till.charge_row(ride_id))["id"],
    )


async def test_cash_can_be_confirmed_before_the_event_is_handled(till: Till) -> None:
    ride_id, driver_id = await till.completed()
    assert (await till.confirm(ride_id, driver_id)).json()["status"] == "PAID"
    await till.charge(ride_id)
    assert await till.states(ride_id) == ("PAID", "PAID")
    assert await kinds_of_events(till, ride_id) == [ChargeOpened, ChargePaid, RidePaid]


async def test_ride_is_charged_only_after_its_completion(till: Till) -> None:
    ride_id, driver_id = await till.accepted()
    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await till.drive_to(status, ride_id, driver_id)
        answer = await till.confirm(ride_id, driver_id)
        assert (answer.status_code, answer.json()["code"]) == (404, "charge_not_found")


async def test_charge_expires_and_can_be_paid_late(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    for _ in range(2):
        await till.expire(ride_id)
    assert await till.states(ride_id) == ("PAYMENT_EXPIRED", "EXPIRED")
    assert await till.balance_cents(driver_id) == 0
    assert (await till.confirm(ride_id, driver_id)).json()["status"] == "PAID"
    await till.expire(ride_id)
    assert await till.states(ride_id) == ("PAID", "PAID")
    assert await kinds_of_events(till, ride_id) == [
        ChargeOpened,
        ChargePaid,
        ChargeExpired,
        RidePaid,
        RidePaymentExpired,
    ]


async def test_charge_without_an_end_has_no_timer(till: Till) -> None:
    ride_id, driver_id = await till.charged(rules=replace(RULES, payment_timeout=None))
    row = await till.charge_row(ride_id)
    assert row["expires_at"] is None
    assert not await till.sql("SELECT FROM timers WHERE subject_id = $1", row["id"])
    assert (await till.confirm(ride_id, driver_id)).json()["expires_at"] is None


async def test_zero_fare_is_paid_at_once(till: Till) -> None:
    ride_id, driver_id = await till.completed()
    await till.sql("UPDATE rides SET final_fare_cents = 0 WHERE id = $1", ride_id)
    await till.charge(ride_id, fare_cents=0)
    assert await till.states(ride_id) == ("PAID", "PAID")
    assert await till.balance_cents(driver_id) == 0


async def test_driver_without_commission_owes_nothing(till: Till) -> None:
    ride_id, driver_id = await till.charged(rules=replace(RULES, commission_basis_points=0))
    assert (await till.confirm(ride_id, driver_id)).json()["commission_cents"] == 0
    assert await till.balance_cents(driver_id) == 0


async def test_charge_is_shown_to_its_parties_and_operators_only(till: Till) -> None:
    passenger_id = uuid4()
    ride_id, driver_id = await till.completed(passenger_id)
    await till.charge(ride_id)
    path = f"/v1/rides/{ride_id}/charge"
    seen = [
        (await till.api.get(path, headers=headers)).json().get("commission_cents", "hidden")
        for headers in (bearer("passenger", passenger_id), bearer("driver", driver_id), till.operator)
    ]
    commission = commission_of((await till.charge_row(ride_id))["amount_cents"], basis_points=1000)
    assert seen == [None, commission, commission]
    for stranger in (bearer("driver", await till.new_driver()), bearer("passenger")):
        assert (await till.api.get(path, headers=stranger)).status_code == 404


async def test_passenger_cannot_confirm_the_cash(till: Till) -> None:
    passenger_id = uuid4()
    ride_id, _ = await till.completed(passenger_id)
    headers = bearer("driver", passenger_id)  # also with the role
    answer = await till.act(ride_id, "charge/cash", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (404, "charge_not_found")


async def test_concurrent_confirmations_capture_once(till: Till) -> None:
    ride_id, driver_id = await till.completed()
    answers, _ = await asyncio.gather(
        asyncio.gather(*(till.confirm(ride_id, driver_id) for _ in range(20))), till.charge(ride_id)
    )
    assert {answer.status_code for answer in answers} == {200}
    charge_id = (await till.charge_row(ride_id))["id"]
    (captured,) = await till.sql("SELECT count(*) FROM captures WHERE charge_id = $1", charge_id)
    assert captured["count"] == 1
    assert await kinds_of_events(till, ride_id) == [ChargeOpened, ChargePaid, RidePaid]


async def test_concurrent_payment_and_expiry_end_in_paid(till: Till) -> None:
    """In either order: a late payment counts, and an expiry after the payment changes nothing."""
    for _ in range(20):
        ride_id, driver_id = await till.charged()
        answer, _ = await asyncio.gather(till.confirm(ride_id, driver_id), till.expire(ride_id))
        assert answer.json()["status"] == "PAID"
        assert await till.states(ride_id) == ("PAID", "PAID")
        steps = await till.sql(
            "SELECT to_status FROM charge_events WHERE charge_id = $1 ORDER BY seq",
            (await till.charge_row(ride_id))["id"],
        )
        assert [step["to_status"] for step in steps] in (["PENDING", "PAID"], ["PENDING", "EXPIRED", "PAID"])


async def test_charge_cannot_be_paid_without_its_capture(till: Till) -> None:
    ride_id, _ = await till.charged()
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "WITH charge AS (UPDATE charges SET status = 'PAID', version = 2, paid_cents = amount_cents"
            "   WHERE ride_id = $1 RETURNING id)"
            " INSERT INTO charge_events (charge_id, seq, from_status, to_status, actor)"
            " SELECT id, 2, 'PENDING', 'PAID', 'system' FROM charge",
            ride_id,
        )
    assert refusal.value.constraint_name == "payments_are_captured"


async def test_money_cannot_move_without_its_transfer(till: Till) -> None:
    ride_id, driver_id = await till.completed()
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "WITH charge AS ("
            "   INSERT INTO charges (id, ride_id, purpose, payer_id, payee_id, amount_cents, currency,"
            "     commission_basis_points, status)"
            "   SELECT gen_random_uuid(), id, 'fare', passenger_id, $2, 5, 'BRL', 0, 'PENDING' FROM rides"
            "   WHERE id = $1 RETURNING id)"
            " INSERT INTO charge_events (charge_id, seq, to_status, actor)"
            " SELECT id, 1, 'PENDING', 'system' FROM charge",
            ride_id,
            driver_id,
        )
    assert refusal.value.constraint_name == "charges_are_posted"
    await till.charge(ride_id)
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "INSERT INTO captures (id, charge_id, provider, provider_ref, amount_cents, confirmed_by)"
            " SELECT gen_random_uuid(), id, 'cash', id::text, amount_cents, payee_id FROM charges"
            " WHERE ride_id = $1",
            ride_id,
        )
    assert refusal.value.constraint_name == "captured_cash_is_posted"


async def test_repeated_end_by_an_operator_returns_the_paid_ride(till: Till) -> None:
    ride_id, driver_id = await till.accepted()
    await till.drive_to("STARTED", ride_id, driver_id)
    body = {"outcome": "completed", "reason": "other"}
    for status in ("COMPLETED", "PAID"):
        answer = await till.act(ride_id, "end", headers=till.operator, json=body)
        assert (answer.status_code, answer.json()["status"]) == (200, status)
        await till.confirm(ride_id, driver_id)


async def test_charges_are_in_the_export_and_stay_after_an_erasure(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    await till.confirm(ride_id, driver_id)
    answer = await till.api.get(f"/v1/users/{driver_id}/export", headers=till.operator)
    (exported,) = answer.json()["sections"]["charges"]
    assert (exported["ride_id"], exported["is_payer"]) == (str(ride_id), False)
    assert (await till.api.delete(f"/v1/users/{driver_id}", headers=till.operator)).status_code == 204
    assert await till.states(ride_id) == ("PAID", "PAID")


async def test_schema_allows_the_moves_of_the_model(till: Till) -> None:
    (row,) = await till.sql(
        "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint"
        " WHERE conname = 'only_allowed_charge_moves'"
    )
    assert set(re.findall(r"'([A-Z]+)>([A-Z]+)'", row["text"])) == {
        (start, end) for start, ends in MOVES.items() for end in ends
    }
