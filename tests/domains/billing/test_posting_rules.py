"""The posting rules: sums are shared without losing a cent, and facts balance."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.billing.captures.model import POSTED_AS, Provider, split
from catraca.domains.billing.charges.model import Charge, ChargeId
from catraca.domains.billing.ledger.model import RULES, Account, Transfer, commission_of, plan_transfer
from catraca.domains.people import UserId
from catraca.domains.rides import RideId

AMOUNTS = st.integers(min_value=1, max_value=10**11)
RATES = st.integers(min_value=0, max_value=10_000)
NOW = datetime(2025, 8, 14, tzinfo=UTC)
DRIVER = UserId(uuid4())


def charge_of(amount_cents: int, basis_points: int) -> Charge:
    return Charge(
        id=ChargeId(uuid4()),
        ride_id=RideId(uuid4()),
        payer_id=UserId(uuid4()),
        payee_id=DRIVER,
        amount_cents=amount_cents,
        paid_cents=0,
        currency="BRL",
        commission_basis_points=basis_points,
        status="PENDING",
        version=1,
        opened_at=NOW,
        expires_at=None,
        updated_at=NOW,
    )


def opening(charge: Charge) -> Transfer:
    return plan_transfer(
        "charge_opened",
        charge.id,
        parts={"amount": charge.amount_cents},
        currency=charge.currency,
        driver_id=DRIVER,
    )


def receive(charge: Charge, provider: Provider, cents: int) -> tuple[Charge, Transfer]:
    shared = split(charge, cents)
    transfer = plan_transfer(
        POSTED_AS[provider], uuid4(), parts=shared.parts, currency=charge.currency, driver_id=DRIVER
    )
    return replace(charge, paid_cents=charge.paid_cents + shared.pays_cents), transfer


def balances_of(*transfers: Transfer) -> Counter[Account]:
    """Debits less credits by account."""
    balances: Counter[Account] = Counter()
    for transfer in transfers:
        for posting in transfer.postings:
            assert posting.cents > 0
            balances[posting.debit] += posting.cents
            balances[posting.credit] -= posting.cents
    assert sum(balances.values()) == 0
    return balances


def test_every_kind_of_capture_has_posting_rules() -> None:
    assert {"charge_opened", *POSTED_AS.values()} == set(RULES)


@given(AMOUNTS, RATES)
def test_commission_is_rounded_half_up_and_within_the_fare(amount_cents: int, basis_points: int) -> None:
    commission = commission_of(amount_cents, basis_points=basis_points)
    assert 0 <= commission <= amount_cents
    assert -5_000 <= amount_cents * basis_points - commission * 10_000 < 5_000


def test_half_a_cent_of_commission_is_rounded_up() -> None:
    assert [commission_of(cents, basis_points=1000) for cents in (4, 5, 14, 15)] == [0, 1, 1, 2]


@given(AMOUNTS, RATES)
def test_fare_paid_in_cash_leaves_only_the_commission_owed(amount_cents: int, basis_points: int) -> None:
    charge = charge_of(amount_cents, basis_points)
    paid, transfer = receive(charge, "cash", amount_cents)
    balances = balances_of(opening(charge), transfer)
    assert paid.due_cents == 0
    assert balances[Account("receivable")] == balances[Account("unearned")] == 0
    assert balances[Account("driver", DRIVER)] == charge.commission_cents
    assert balances[Account("commission")] == -charge.commission_cents


@given(AMOUNTS, RATES, st.lists(AMOUNTS, min_size=1, max_size=8))
def test_receipts_are_shared_without_losing_a_cent(
    amount_cents: int, basis_points: int, received: list[int]
) -> None:
    """In parts, too much or twice: driver and commission get their shares of what was due, and no more."""
    opened = charge = charge_of(amount_cents, basis_points)
    transfers = [opening(charge)]
    for cents in received:
        charge, transfer = receive(charge, "pix_static", cents)
        transfers.append(transfer)
    balances = balances_of(*transfers)
    commission = commission_of(charge.paid_cents, basis_points=basis_points)
    assert charge.paid_cents == min(amount_cents, sum(received))
    assert balances[Account("bank")] == sum(received)
    assert balances[Account("suspense")] == charge.paid_cents - sum(received)
    assert balances[Account("receivable")] == -balances[Account("unearned")] == charge.due_cents
    assert balances[Account("commission")] == -commission
    assert balances[Account("driver", DRIVER)] == commission - charge.paid_cents
    if not charge.due_cents:
        assert commission == opened.commission_cents
