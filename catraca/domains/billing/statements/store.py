"""Reads of people's accounts, and the rules of their entries."""

from uuid import UUID

from catraca.domains.billing.statements.model import Entry
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld


async def read_balance(db: Db, driver_id: UUID, *, currency: str) -> int:
    """What is owed to the driver; 0 without an account."""
    balance = await db.fetchval(
        "SELECT credits_cents - debits_cents FROM ledger_accounts"
        " WHERE kind = 'driver' AND owner_id = $1 AND currency = $2",
        driver_id,
        currency,
    )
    return balance or 0


async def read_entries(
    db: Db, driver_id: UUID, *, currency: str, before: int | None, limit: int
) -> list[Entry]:
    """Entries of the driver's account with a smaller number than `before`, newest first."""
    rows = await db.fetch(
        "SELECT e.n, t.posted_at AS at, t.kind, h.ride_id, e.cents, e.balance_cents"
        " FROM ledger_accounts a JOIN ledger_entries e ON e.account_no = a.no"
        " JOIN ledger_transfers t ON t.id = e.transfer_id"
        " JOIN captures c ON c.id = t.cause_id JOIN charges h ON h.id = c.charge_id"
        " WHERE a.kind = 'driver' AND a.owner_id = $1 AND a.currency = $2 AND e.n < $3"
        " ORDER BY e.n DESC LIMIT $4",
        driver_id,
        currency,
        before or 2**62,
        limit,
    )
    return [Entry(**row) for row in rows]


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="entries continue the balance",
        sentence="Each entry of an account begins with the balance that the entry before it left.",
        table="ledger_entries",
        constraint="entries_continue_the_balance",
        definition=("FOREIGN KEY (account_no, before_n, before_cents)",),
    ),
    TriggerHeld(
        name="entries are append-only",
        sentence="Entries of accounts cannot be changed or deleted.",
        table="ledger_entries",
        trigger="entries_are_append_only",
        definition=("BEFORE DELETE OR UPDATE OR TRUNCATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    Invariant(
        name="statements end with the balance",
        sentence="The last entry of a person's account has the account's number of entries and its balance.",
        query="SELECT a.no FROM ledger_accounts a LEFT JOIN LATERAL ("
        "   SELECT n, balance_cents FROM ledger_entries WHERE account_no = a.no ORDER BY n DESC LIMIT 1"
        " ) AS last ON true"
        " WHERE a.owner_id IS NOT NULL AND (a.entries, a.credits_cents - a.debits_cents)"
        "   IS DISTINCT FROM (coalesce(last.n, 0), coalesce(last.balance_cents, 0))",
    ),
    Invariant(
        name="every posting is in its statement",
        sentence="Each side of a posting to a person's account has its entry, with the same sum.",
        query="SELECT p.transfer_id FROM ledger_postings p"
        " JOIN ledger_accounts a ON a.no IN (p.debit_no, p.credit_no) AND a.owner_id IS NOT NULL"
        " LEFT JOIN ledger_entries e"
        "   ON e.transfer_id = p.transfer_id AND e.posting_n = p.n AND e.account_no = a.no"
        " WHERE e.cents IS DISTINCT FROM CASE a.no WHEN p.credit_no THEN p.cents ELSE -p.cents END",
    ),
)
