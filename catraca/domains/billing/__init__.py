"""Billing: charges of rides, and the double-entry ledger."""

from catraca.domains.billing.charges.model import BillingRules
from catraca.domains.billing.charges.service import PERSONAL_DATA
from catraca.domains.billing.charges.store import INVARIANTS as CHARGE_INVARIANTS
from catraca.domains.billing.ledger.store import INVARIANTS as LEDGER_INVARIANTS

INVARIANTS = (*LEDGER_INVARIANTS, *CHARGE_INVARIANTS)

__all__ = ["INVARIANTS", "PERSONAL_DATA", "BillingRules"]
