"""The ledger's constraints, each tried by SQL."""

import asyncio
from itertools import accumulate
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains.billing.ledger.model import Account, Posting, Transfer
from catraca.domains.billing.ledger.service import post_transfer
from tests.domains.billing.till import Till

REFUSED = asyncpg.IntegrityConstraintViolationError


def opened(cause_id: UUID, cents: int = 100, currency: str = "BRL") -> Transfer:
    postings = (Posting(Account("receivable"), Account("unearned"), cents),)
    return Transfer(kind="charge_opened", cause_id=cause_id, currency=currency, postings=postings)


@pytest.mark.parametrize("table", ["ledger_transfers", "ledger_postings", "captures"])
async def test_rows_are_never_changed_or_deleted(till: Till, table: str) -> None:
    for statement in (
        f"UPDATE {table} SET currency = 'USD'",
        f"DELETE FROM {table}",
        f"TRUNCATE {table} CASCADE",
    ):
        if table == "captures":
            statement = statement.replace("currency = 'USD'", "amount_cents = 1")
        with pytest.raises(asyncpg.RestrictViolationError):
            await till.sql(statement)


async def test_fact_is_posted_once(till: Till) -> None:
    cause_id = uuid4()
    await till.database.run(lambda db: post_transfer(db, opened(cause_id)))
    with pytest.raises(REFUSED) as refusal:
        await till.database.run(lambda db: post_transfer(db, opened(cause_id, 200)))
    assert refusal.value.constraint_name == "one_transfer_a_fact"


async def test_transfer_without_its_postings_is_refused_at_commit(till: Till) -> None:
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "INSERT INTO ledger_transfers (id, kind, cause_id, currency, total_cents)"
            " VALUES (gen_random_uuid(), 'charge_opened', gen_random_uuid(), 'BRL', 5)"
        )
    assert refusal.value.constraint_name == "postings_add_up_to_the_total"


async def test_posting_cannot_be_added_later(till: Till) -> None:
    cause_id = uuid4()
    await till.database.run(lambda db: post_transfer(db, opened(cause_id)))
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "INSERT INTO ledger_postings SELECT transfer_id, 2, credit_no, debit_no, p.currency, 1"
            " FROM ledger_postings p JOIN ledger_transfers t ON t.id = transfer_id WHERE cause_id = $1",
            cause_id,
        )
    assert refusal.value.constraint_name == "postings_add_up_to_the_total"


async def test_posting_has_the_currency_of_its_accounts(till: Till) -> None:
    await till.database.run(lambda db: post_transfer(db, opened(uuid4(), currency="USD")))
    with pytest.raises(REFUSED) as refusal:
        await till.sql(
            "WITH transfer AS (INSERT INTO ledger_transfers (id, kind, cause_id, currency, total_cents)"
            "   VALUES (gen_random_uuid(), 'charge_opened', gen_random_uuid(), 'EUR', 5) RETURNING id)"
            " INSERT INTO ledger_postings SELECT transfer.id, 1, d.no, c.no, 'EUR', 5"
            " FROM transfer, ledger_accounts d, ledger_accounts c"
            " WHERE d.kind = 'receivable' AND c.kind = 'unearned'"
            "   AND d.currency = 'USD' AND c.currency = 'USD'"
        )
    assert refusal.value.constraint_name in (
        "debits_have_the_accounts_currency",
        "credits_have_the_accounts_currency",
    )


async def test_balances_are_right_after_concurrent_transfers(till: Till) -> None:
    """Transfers between two drivers in both directions, which would deadlock without an order of locks."""
    first, second = (Account("driver", driver_id) for driver_id in await till.new_drivers(2))

    async def transfer(number: int) -> None:
        debit, credit = (first, second) if number % 2 else (second, first)
        one = Transfer(
            kind="cash_captured",
            cause_id=uuid4(),
            currency="BRL",
            postings=(Posting(debit, credit, number), Posting(Account("receivable"), credit, 1)),
        )
        await till.database.run(lambda db: post_transfer(db, one))

    await asyncio.gather(*(transfer(number) for number in range(1, 41)))
    odd, even = sum(range(1, 41, 2)), sum(range(2, 41, 2))
    for account in (first, second):
        entries = await till.entries(account.owner_id)  # type: ignore[arg-type]
        assert [one["n"] for one in entries] == list(range(1, 61))
        assert [one["balance_cents"] for one in entries] == list(accumulate(one["cents"] for one in entries))
    assert await till.balance_cents(first.owner_id) == odd - even - 20  # type: ignore[arg-type]
    assert await till.balance_cents(second.owner_id) == even - odd - 20  # type: ignore[arg-type]
