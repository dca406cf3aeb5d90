"""Billing: charges of rides, what is received for them, and the double-entry ledger."""

from catraca.domains.billing.captures.store import INVARIANTS as CAPTURE_INVARIANTS
from catraca.domains.billing.charges.model import BillingRules
from catraca.domains.billing.charges.service import PERSONAL_DATA
from catraca.domains.billing.charges.store import INVARIANTS as CHARGE_INVARIANTS
from catraca.domains.billing.ledger.store import INVARIANTS as LEDGER_INVARIANTS
from catraca.domains.billing.pix_codes.model import PixReceiver, PixTerms
from catraca.domains.billing.statements.store import INVARIANTS as STATEMENT_INVARIANTS

INVARIANTS = (*LEDGER_INVARIANTS, *STATEMENT_INVARIANTS, *CHARGE_INVARIANTS, *CAPTURE_INVARIANTS)

__all__ = ["INVARIANTS", "PERSONAL_DATA", "BillingRules", "PixReceiver", "PixTerms"]
