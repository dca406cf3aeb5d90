"""The posting rules, and how a sum is shared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

AccountKind = Literal["receivable", "unearned", "commission", "driver", "bank", "suspense"]
TransferKind = Literal["charge_opened", "cash_captured", "bank_captured"]
Part = Literal["amount", "excess", "driver_share", "commission"]

BASIS_POINTS: Final = 10_000
# The accounts of people; the others are the platform's.
PERSONAL: Final[frozenset[AccountKind]] = frozenset({"driver"})


@dataclass(frozen=True, slots=True)
class PostingRule:
    """Debit one account and credit another with a part of the sum."""

    debit: AccountKind
    credit: AccountKind
    part: Part


# What each fact posts.
RULES: Final[Mapping[TransferKind, tuple[PostingRule, ...]]] = {
    "charge_opened": (PostingRule("receivable", "unearned", "amount"),),
    # The driver has the cash: a debt, of which the driver's share is taken off.
    "cash_captured": (
        PostingRule("driver", "receivable", "amount"),
        PostingRule("unearned", "driver", "driver_share"),
        PostingRule("unearned", "commission", "commission"),
    ),
    # The bank account has the money, and the driver is owed the share. The excess belongs to no charge.
    "bank_captured": (
        PostingRule("bank", "receivable", "amount"),
        PostingRule("bank", "suspense", "excess"),
        PostingRule("unearned", "driver", "driver_share"),
        PostingRule("unearned", "commission", "commission"),
    ),
}


@dataclass(frozen=True, slots=True)
class Account:
    """`owner_id` is None for the platform's accounts."""

    kind: AccountKind
    owner_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSum:
    """Debits and credits of all accounts of a kind."""

    kind: AccountKind
    currency: str
    debits_cents: int
    credits_cents: int


@dataclass(frozen=True, slots=True)
class Posting:
    debit: Account
    credit: Account
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A fact that moves money. `cause_id` is its charge or capture: it is posted once."""

    kind: TransferKind
    cause_id: UUID
    currency: str
    postings: tuple[Posting, ...]

    @property
    def total_cents(self) -> int:
        return sum(posting.cents for posting in self.postings)


def commission_of(amount_cents: int, *, basis_points: int) -> int:
    """The commission, rounded half up. The driver gets the rest, so that no cent is lost."""
    return (amount_cents * basis_points + BASIS_POINTS // 2) // BASIS_POINTS


def plan_transfer(
    kind: TransferKind,
    cause_id: UUID,
    *,
    parts: Mapping[Part, int],
    currency: str,
    driver_id: UUID,
) -> Transfer:
    """The transfer of a fact by the posting rules; parts of zero cents are left out."""

    def account(kind: AccountKind) -> Account:
        return Account(kind, driver_id if kind in PERSONAL else None)

    postings = tuple(
        Posting(account(rule.debit), account(rule.credit), parts[rule.part])
        for rule in RULES[kind]
        if parts[rule.part]
    )
    return Transfer(kind=kind, cause_id=cause_id, currency=currency, postings=postings)
