"""Drivers' accounts: every posting once, numbered without gaps, with the balance after it."""

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains.billing.ledger.model import commission_of
from tests.conftest import bearer
from tests.domains.billing.till import Till

REFUSED = asyncpg.IntegrityConstraintViolationError


async def read_page(till: Till, driver_id: UUID, **query: int) -> dict[str, Any]:
    path, headers = f"/v1/drivers/{driver_id}/statement", bearer("driver", driver_id)
    answer = await till.api.get(path, headers=headers, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_cash_and_transfers_are_on_the_statement(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    charge = await till.charge_row(ride_id)
    fare = charge["amount_cents"]
    await till.api.post(
        f"/v1/charges/{charge['id']}/captures",
        headers=till.operator,
        json={"reference": uuid4().hex, "amount_cents": 300},
    )
    await till.confirm(ride_id, driver_id)
    statement = await read_page(till, driver_id)
    first = 300 - commission_of(300, basis_points=1000)
    rest = fare - commission_of(fare, basis_points=1000) - first
    assert [(one["n"], one["what"], one["cents"], one["balance_cents"]) for one in statement["items"]] == [
        (3, "share_of_cash", rest, first - (fare - 300) + rest),
        (2, "cash_kept", -(fare - 300), first - (fare - 300)),
        (1, "share_of_transfer", first, first),
    ]
    assert {one["ride_id"] for one in statement["items"]} == {str(ride_id)}
    assert statement["balance_cents"] == -await till.balance_cents(driver_id)
    assert (statement["currency"], statement["next"]) == ("BRL", None)


async def test_pages_go_back_to_the_first_entry(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    charge_id = (await till.charge_row(ride_id))["id"]
    for _ in range(5):
        await till.api.post(
            f"/v1/charges/{charge_id}/captures",
            headers=till.operator,
            json={"reference": uuid4().hex, "amount_cents": 7},
        )
    numbers: list[int] = []
    page: dict[str, Any] = {"next": 2**62}
    while page["next"] is not None:
        page = await read_page(till, driver_id, limit=2, before=page["next"])
        numbers += [one["n"] for one in page["items"]]
    assert numbers == [5, 4, 3, 2, 1]


async def test_driver_without_an_account_has_an_empty_statement(till: Till) -> None:
    statement = await read_page(till, await till.new_driver())
    assert statement == {"currency": "BRL", "balance_cents": 0, "items": [], "next": None}


async def test_statement_is_for_the_driver_and_operators(till: Till) -> None:
    driver_id, other_id = await till.new_drivers(2)
    path = f"/v1/drivers/{driver_id}/statement"
    assert (await till.api.get(path, headers=till.operator)).status_code == 200
    assert (await till.api.get(path, headers=bearer("driver", other_id))).status_code == 403


async def test_entries_cannot_be_changed_or_invented(till: Till) -> None:
    ride_id, driver_id = await till.charged()
    await till.confirm(ride_id, driver_id)
    (*_, last) = await till.entries(driver_id)
    for statement in ("UPDATE ledger_entries SET cents = 1", "DELETE FROM ledger_entries"):
        with pytest.raises(asyncpg.RestrictViolationError):
            await till.sql(statement)
    insert = (
        "INSERT INTO ledger_entries (account_no, n, transfer_id, posting_n, cents, balance_cents)"
        " SELECT $1, $2, p.transfer_id, p.n, 5, $3 FROM ledger_postings p"
        " WHERE p.debit_no <> $1 AND p.credit_no <> $1 LIMIT 1"
    )
    account_no, balance_cents = last["account_no"], last["balance_cents"]
    for n, after, constraint in (
        (last["n"], 5, "ledger_entries_pkey"),
        (last["n"] + 2, balance_cents + 5, "entries_continue_the_balance"),
        (last["n"] + 1, balance_cents + 6, "entries_continue_the_balance"),
    ):
        with pytest.raises(REFUSED) as refusal:
            await till.sql(insert, account_no, n, after)
        assert refusal.value.constraint_name == constraint
