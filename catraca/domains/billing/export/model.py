"""Postings as lines of CSV or Beancount."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal
from uuid import UUID

from catraca.domains.billing.ledger.model import Account, AccountKind, TransferKind

Format = Literal["csv", "beancount"]
# Beancount wants each account below one of five names.
NAMES: Final[dict[AccountKind, str]] = {
    "bank": "Assets:Bank",
    "receivable": "Assets:Receivable",
    "unearned": "Liabilities:Unearned",
    "suspense": "Liabilities:Suspense",
    "driver": "Liabilities:Drivers",
    "commission": "Income:Commission",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A posting with its transfer."""

    transfer_id: UUID
    posted_at: datetime
    kind: TransferKind
    cause_id: UUID
    n: int
    debit: AccountKind
    debit_owner_id: UUID | None
    credit: AccountKind
    credit_owner_id: UUID | None
    currency: str
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Debits less credits of an account."""

    account: Account
    currency: str
    cents: int


def csv_header() -> str:
    return ",".join(Posted.__slots__) + "\n"


def csv_text(postings: Iterable[Posted]) -> str:
    """A line for each posting."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(astuple(one) for one in postings)
    return written.getvalue()


def beancount_header(balances: Sequence[Balance], first_day: date) -> str:
    """Options, and the opening of each account."""
    accounts: dict[str, list[str]] = {}
    for one in balances:
        accounts.setdefault(name_of(one.account), []).append(one.currency)
    currencies = sorted({one.currency for one in balances})
    lines = ['option "title" "Catraca"', *(f'option "operating_currency" "{one}"' for one in currencies)]
    lines += [f"{first_day} open {name} {','.join(found)}" for name, found in accounts.items()]
    return "\n".join(lines) + "\n"


def beancount_text(postings: Iterable[Posted]) -> str:
    """Transactions, by days of UTC. The postings of a transfer follow each other."""
    return "".join(
        line
        for _, parts in groupby(postings, lambda one: one.transfer_id)
        for line in _transaction(list(parts))
    )


def beancount_footer(balances: Sequence[Balance], last_day: date) -> str:
    """The balance that each account must have on the day after the last posting."""
    after = last_day + timedelta(days=1)
    return "".join(
        f"{after} balance {name_of(one.account)} {_amount(one.cents)} {one.currency}\n" for one in balances
    )


def name_of(account: Account) -> str:
    """The account's name in Beancount; a driver's has the id."""
    name = NAMES[account.kind]
    return name if account.owner_id is None else f"{name}:{str(account.owner_id).upper()}"


def _transaction(parts: Sequence[Posted]) -> Iterator[str]:
    first = parts[0]
    yield f'{first.posted_at.astimezone(UTC).date()} * "{first.kind}"\n'
    yield f'  transfer: "{first.transfer_id}"\n  cause: "{first.cause_id}"\n'
    for one in parts:
        debit, credit = Account(one.debit, one.debit_owner_id), Account(one.credit, one.credit_owner_id)
        yield f"  {name_of(debit)} {_amount(one.cents)} {one.currency}\n"
        yield f"  {name_of(credit)} {_amount(-one.cents)} {one.currency}\n"


def _amount(cents: int) -> str:
    return f"{Decimal(cents) / 100:.2f}"
