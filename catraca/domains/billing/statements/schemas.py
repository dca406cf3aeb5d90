"""Responses with statements."""

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from pydantic import Field

from catraca.domains.billing.statements.model import Entry, Statement
from catraca.platform.forms import Answer, Next, split_page

# What a driver reads: the posting's fact, and whether it is the money or the driver's share of it.
What = Literal["cash_kept", "share_of_cash", "share_of_transfer"]


class EntryOut(Answer):
    n: int = Field(description="Number of the entry in this account, without gaps.")
    at: datetime
    what: What = Field(
        description="`cash_kept`: the driver has the passenger's cash. `share_of_cash`, `share_of_transfer`:"
        " the driver's share of cash, or of money on the co-operative's account."
    )
    ride_id: UUID
    cents: int = Field(description="Above zero: for the driver.")
    balance_cents: int = Field(description="The balance after this entry.")

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(
            n=entry.n,
            at=entry.at,
            what=_what(entry),
            ride_id=entry.ride_id,
            cents=entry.cents,
            balance_cents=entry.balance_cents,
        )


class StatementOut(Answer):
    currency: str = Field(description="ISO 4217.")
    balance_cents: int = Field(
        description="Above zero: the co-operative owes it to the driver; below zero: the driver owes it."
    )
    items: list[EntryOut] = Field(description="Newest first.")
    next: Next[int]

    @classmethod
    def of(cls, statement: Statement, *, limit: int) -> Self:
        page, after = split_page(statement.entries, limit=limit, cursor=lambda entry: entry.n)
        return cls(
            currency=statement.currency,
            balance_cents=statement.balance_cents,
            items=[EntryOut.of(entry) for entry in page],
            next=after,
        )


def _what(entry: Entry) -> What:
    if entry.kind == "bank_captured":
        return "share_of_transfer"
    return "cash_kept" if entry.cents < 0 else "share_of_cash"
