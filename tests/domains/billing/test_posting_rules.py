"""The posting rules: sums are shared without losing a cent, and facts balance."""

from collections import Counter
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.billing.ledger.model import (
    RULES,
    Account,
    Transfer,
    TransferKind,
    commission_of,
    plan_transfer,
)

AMOUNTS = st.integers(min_value=1, max_value=10**12)
RATES = st.integers(min_value=0, max_value=10_000)
DRIVER = uuid4()


def transfer(kind: TransferKind, amount_cents: int, basis_points: int) -> Transfer:
    return plan_transfer(
        kind,
        uuid4(),
        amount_cents=amount_cents,
        basis_points=basis_points,
        currency="BRL",
        driver_id=DRIVER,
    )


@given(AMOUNTS, RATES)
def test_commission_is_rounded_half_up_and_within_the_fare(amount_cents: int, basis_points: int) -> None:
    commission = commission_of(amount_cents, basis_points=basis_points)
    assert 0 <= commission <= amount_cents
    assert -5_000 <= amount_cents * basis_points - commission * 10_000 < 5_000


def test_half_a_cent_of_commission_is_rounded_up() -> None:
    assert [commission_of(cents, basis_points=1000) for cents in (4, 5, 14, 15)] == [0, 1, 1, 2]


@given(AMOUNTS, RATES)
def test_paid_fare_leaves_only_the_commission_owed(amount_cents: int, basis_points: int) -> None:
    balances: Counter[Account] = Counter()
    for kind in RULES:
        for posting in transfer(kind, amount_cents, basis_points).postings:
            assert posting.cents > 0
            balances[posting.debit] += posting.cents
            balances[posting.credit] -= posting.cents
    commission = commission_of(amount_cents, basis_points=basis_points)
    assert sum(balances.values()) == 0
    assert balances[Account("receivable")] == 0
    assert balances[Account("unearned")] == 0
    assert balances[Account("commission")] == -commission
    assert balances[Account("driver", DRIVER)] == commission


@given(AMOUNTS, RATES)
def test_parts_of_a_fare_add_up_to_it(amount_cents: int, basis_points: int) -> None:
    debited, *shared = transfer("cash_captured", amount_cents, basis_points).postings
    assert debited.cents == amount_cents == sum(posting.cents for posting in shared)
