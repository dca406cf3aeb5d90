"""Money on the bank account: booked once, in parts, too much, and beside cash."""

import asyncio
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains.billing.captures.model import Receipt, split
from catraca.domains.billing.captures.store import insert_capture
from catraca.domains.billing.charges.model import Charge
from catraca.domains.billing.ledger.model import commission_of, plan_transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.platform.database import Db
from tests.domains.billing.till import Till

REFUSED = asyncpg.IntegrityConstraintViolationError


async def receive(till: Till, ride_id: UUID, cents: int, reference: str | None = None) -> httpx.Response:
    """An operator confirms this money for the ride's charge."""
    charge_id = (await till.charge_row(ride_id))["id"]
    return await till.api.post(
        f"/v1/charges/{charge_id}/captures",
        headers=till.operator,
        json={"reference": reference or f"E{uuid4().hex}"[:32], "amount_cents": cents},
    )


async def fare_of(till: Till, ride_id: UUID) -> int:
    return (await till.charge_row(ride_id))["amount_cents"]


async def excess_of(till: Till, ride_id: UUID) -> list[int]:
    rows = await till.sql(
        "SELECT excess_cents FROM captures c JOIN charges h ON h.id = c.charge_id WHERE h.ride_id = $1"
        " ORDER BY c.id",
        ride_id,
    )
    return [row["excess_cents"] for row in rows]


async def test_money_on_the_account_pays_charge_and_ride(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    fare = await fare_of(till, ride_id)
    answer = await receive(till, ride_id, fare)
    assert answer.status_code == 201
    assert answer.json()["charge"] | {"status": "PAID", "paid_cents": fare} == answer.json()["charge"]
    assert await till.states(ride_id) == ("PAID", "PAID")
    # The co-operative owes the driver the share.
    assert await till.balance_cents(driver_id) == commission_of(fare, basis_points=1000) - fare
    (entry,) = await till.sql(
        "SELECT data FROM audit_log WHERE action = 'charge.captured' AND subject_id = $1",
        answer.json()["charge"]["charge_id"],
    )
    assert str(fare) in str(entry["data"])


async def test_fare_is_paid_in_parts(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    fare = await fare_of(till, ride_id)
    states = []
    for cents in (1, 2, fare - 3):
        answer = await receive(till, ride_id, cents)
        states.append((answer.json()["charge"]["status"], answer.json()["charge"]["paid_cents"]))
    assert states == [("PENDING", 1), ("PENDING", 3), ("PAID", fare)]
    assert await till.states(ride_id) == ("PAID", "PAID")
    assert await till.balance_cents(driver_id) == commission_of(fare, basis_points=1000) - fare


async def test_rest_of_a_fare_is_paid_in_cash(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    fare = await fare_of(till, ride_id)
    await receive(till, ride_id, fare - 100)
    answer = await till.confirm(ride_id, driver_id)
    assert (answer.json()["status"], answer.json()["paid_cents"]) == ("PAID", fare)
    # The driver has 100 in cash, and gets the rest without the commission.
    assert await till.balance_cents(driver_id) == commission_of(fare, basis_points=1000) - (fare - 100)


async def test_repeat_books_nothing(till: Till) -> None:
    ride_id, _ = await till.charged()
    fare, reference = await fare_of(till, ride_id), f"E{uuid4().hex}"[:32]
    answers = await asyncio.gather(*(receive(till, ride_id, fare, reference) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["capture"]["capture_id"] for answer in answers}) == 1
    assert await excess_of(till, ride_id) == [0]


async def test_reference_is_booked_for_one_charge_and_amount(till: Till) -> None:
    (ride_id, _), (other_id, _) = await till.charged(), await till.charged()
    reference = f"E{uuid4().hex}"[:32]
    fare = await fare_of(till, ride_id)
    assert (await receive(till, ride_id, fare, reference)).status_code == 201
    for wrong in (receive(till, ride_id, fare + 1, reference), receive(till, other_id, fare, reference)):
        answer = await wrong
        assert (answer.status_code, answer.json()["code"]) == (409, "reference_captured")
        assert answer.json()["amount_cents"] == fare
    assert await till.states(other_id) == ("COMPLETED", "PENDING")


async def test_payment_confirmed_for_two_charges_is_booked_for_one(till: Till) -> None:
    for _ in range(10):
        rides = [(await till.charged())[0] for _ in range(2)]
        reference = f"E{uuid4().hex}"[:32]
        answers = await asyncio.gather(*(receive(till, ride_id, 100, reference) for ride_id in rides))
        assert sorted(answer.status_code for answer in answers) == [201, 409]


async def test_money_beyond_the_charge_is_excess(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    fare = await fare_of(till, ride_id)
    for cents in (fare + 5, 7):
        assert (await receive(till, ride_id, cents)).status_code == 201
    assert await excess_of(till, ride_id) == [5, 7]
    assert (await till.charge_row(ride_id))["paid_cents"] == fare
    assert await till.balance_cents(driver_id) == commission_of(fare, basis_points=1000) - fare


async def test_cash_and_pix_at_once_pay_the_fare_once(till: Till) -> None:
    """The second one finds nothing due: a confirmation then changes nothing, and a Pix is excess."""
    for _ in range(20):
        ride_id, driver_id = await till.charged()
        fare = await fare_of(till, ride_id)
        cash, pix = await asyncio.gather(till.confirm(ride_id, driver_id), receive(till, ride_id, fare))
        assert (cash.status_code, pix.status_code) == (200, 201)
        assert await excess_of(till, ride_id) in ([0], [0, fare])
        assert await till.states(ride_id) == ("PAID", "PAID")


async def test_late_money_pays_an_expired_charge(till: Till) -> None:
    ride_id, _ = await till.charged()
    fare = await fare_of(till, ride_id)
    await receive(till, ride_id, fare - 1)
    await till.expire(ride_id)
    assert await till.states(ride_id) == ("PAYMENT_EXPIRED", "EXPIRED")
    await receive(till, ride_id, 1)
    assert await till.states(ride_id) == ("PAID", "PAID")


async def test_captures_are_listed_with_their_charge(till: Till) -> None:
    ride_id, _ = await till.charged()
    booked = [(await receive(till, ride_id, cents)).json()["capture"] for cents in (10, 20)]
    charge_id = (await till.charge_row(ride_id))["id"]
    answer = await till.api.get(f"/v1/charges/{charge_id}/captures", headers=till.operator)
    assert answer.json()["captures"] == booked
    assert answer.json()["charge"]["paid_cents"] == 30


async def test_charges_are_listed_by_status(till: Till) -> None:
    paid, _ = await till.charged()
    await receive(till, paid, await fare_of(till, paid))
    pending = [(await till.charged())[0] for _ in range(3)]
    found: list[str] = []
    before = None
    while len(found) < 3:
        query = {"status": "PENDING", "limit": 2} | ({"before": before} if before else {})
        answer = (await till.api.get("/v1/charges", headers=till.operator, params=query)).json()
        assert {one["status"] for one in answer["items"]} == {"PENDING"}
        found += [one["ride_id"] for one in answer["items"]]
        before = answer["next"]
    assert found[:3] == [str(ride_id) for ride_id in reversed(pending)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"reference": "E1", "amount_cents": 0},
        {"reference": "E1", "amount_cents": 10**11 + 1},
        {"reference": "", "amount_cents": 1},
        {"reference": "two words", "amount_cents": 1},
        {"reference": "x" * 101, "amount_cents": 1},
        {"reference": "E1"},
        {"reference": "E1", "amount_cents": 1, "provider": "cash"},
    ],
)
async def test_wrong_receipt_is_refused(till: Till, wrong: dict[str, object]) -> None:
    answer = await till.api.post(f"/v1/charges/{uuid4()}/captures", headers=till.operator, json=wrong)
    assert answer.status_code == 422


async def test_unknown_charge_is_not_found(till: Till) -> None:
    body = {"reference": "E1", "amount_cents": 1}
    for answer in (
        await till.api.post(f"/v1/charges/{uuid4()}/captures", headers=till.operator, json=body),
        await till.api.get(f"/v1/charges/{uuid4()}/captures", headers=till.operator),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "charge_not_found")


async def test_captures_and_what_was_paid_cannot_differ(till: Till) -> None:
    """A capture that is not counted, and a charge that counts what was not received."""
    ride_id, driver_id = await till.charged()
    charge = Charge(
        **{key: value for key, value in (await till.charge_row(ride_id)).items() if key != "purpose"}
    )
    receipt = Receipt(provider="pix_static", reference=uuid4().hex, amount_cents=5, confirmed_by=driver_id)

    async def capture_only(db: Db) -> None:
        capture = await insert_capture(db, charge.id, receipt, excess_cents=0)
        assert capture is not None
        parts = split(charge, 5).parts
        await post_transfer(
            db, plan_transfer("bank_captured", capture.id, parts=parts, currency="BRL", driver_id=driver_id)
        )

    with pytest.raises(REFUSED) as refusal:
        await till.database.run(capture_only)
    assert refusal.value.constraint_name == "captures_pay_their_charge"
    for change, constraint in (
        ("paid_cents = 5", "payments_are_captured"),
        ("paid_cents = amount_cents", "paid_charges_are_paid_in_full"),
        ("paid_cents = amount_cents + 1", "no_charge_is_overpaid"),
    ):
        with pytest.raises(REFUSED) as refusal:
            await till.sql(f"UPDATE charges SET {change} WHERE id = $1", charge.id)
        assert refusal.value.constraint_name == constraint
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "INSERT INTO captures (id, charge_id, provider, provider_ref, amount_cents, confirmed_by)"
            " VALUES (gen_random_uuid(), $1, 'pix_static', 'unposted', 5, $2)",
            charge.id,
            driver_id,
        )
    assert refusal.value.constraint_name == "captured_transfers_are_posted"
