"""Statements on the ledger, and its rules."""

from collections.abc import Collection, Sequence

from catraca.domains.billing.ledger.model import Account, AccountSum, Transfer
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld
from catraca.platform.ids import new_id

# Each posting twice: as a debit of one account and as a credit of the other.
SIDES = (
    "SELECT debit_no AS no, cents AS debit, 0 AS credit FROM ledger_postings"
    " UNION ALL SELECT credit_no, 0, cents FROM ledger_postings"
)


async def find_accounts(db: Db, accounts: Collection[Account], *, currency: str) -> dict[Account, int]:
    """The numbers of those accounts that exist."""
    rows = await db.fetch(
        # Two branches, because only = and IS NULL use the index.
        "WITH wanted AS (SELECT * FROM unnest($1::text[], $2::uuid[]) AS w (kind, owner_id))"
        " SELECT a.no, a.kind, a.owner_id FROM wanted w JOIN ledger_accounts a"
        "   ON a.kind = w.kind AND a.owner_id = w.owner_id AND a.currency = $3"
        " UNION ALL"
        " SELECT a.no, a.kind, a.owner_id FROM wanted w JOIN ledger_accounts a"
        "   ON a.kind = w.kind AND a.owner_id IS NULL AND a.currency = $3 WHERE w.owner_id IS NULL",
        [account.kind for account in accounts],
        [account.owner_id for account in accounts],
        currency,
    )
    return {Account(row["kind"], row["owner_id"]): row["no"] for row in rows}


async def add_accounts(db: Db, accounts: Sequence[Account], *, currency: str) -> None:
    """Add these accounts; those that exist stay as they are."""
    await db.execute(
        "INSERT INTO ledger_accounts (kind, owner_id, currency)"
        " SELECT kind, owner_id, $3 FROM unnest($1::text[], $2::uuid[]) AS w (kind, owner_id)"
        " ORDER BY kind, owner_id"
        " ON CONFLICT ON CONSTRAINT one_account_a_kind_owner_and_currency DO NOTHING",
        [account.kind for account in accounts],
        [account.owner_id for account in accounts],
        currency,
    )


async def insert_transfer(db: Db, transfer: Transfer, numbers: dict[Account, int]) -> None:
    """Insert the transfer with its postings; fails if its fact was posted before."""
    await db.execute(
        "WITH transfer AS ("
        "   INSERT INTO ledger_transfers (id, kind, cause_id, currency, total_cents)"
        "   VALUES ($1, $2, $3, $4, $5))"
        " INSERT INTO ledger_postings (transfer_id, n, debit_no, credit_no, currency, cents)"
        " SELECT $1, n, debit_no, credit_no, $4, cents"
        " FROM unnest($6::bigint[], $7::bigint[], $8::bigint[]) WITH ORDINALITY"
        "   AS p (debit_no, credit_no, cents, n)",
        new_id(),
        transfer.kind,
        transfer.cause_id,
        transfer.currency,
        transfer.total_cents,
        [numbers[posting.debit] for posting in transfer.postings],
        [numbers[posting.credit] for posting in transfer.postings],
        [posting.cents for posting in transfer.postings],
    )


async def sum_accounts(db: Db) -> list[AccountSum]:
    """Debits and credits by kind of account and currency, from the postings."""
    rows = await db.fetch(
        "SELECT a.kind, a.currency, sum(p.debit)::bigint AS debits_cents,"  # noqa: S608 - a constant
        f"   sum(p.credit)::bigint AS credits_cents FROM ({SIDES}) AS p"
        " JOIN ledger_accounts a USING (no) GROUP BY a.kind, a.currency ORDER BY a.currency, a.kind"
    )
    return [AccountSum(**row) for row in rows]


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="each fact is posted once",
        sentence="A charge or a capture has at most one transfer of a kind.",
        table="ledger_transfers",
        constraint="one_transfer_a_fact",
        definition=("UNIQUE (kind, cause_id)",),
    ),
    TriggerHeld(
        name="transfers are append-only",
        sentence="Transfers of the ledger cannot be changed or deleted.",
        table="ledger_transfers",
        trigger="transfers_are_append_only",
        definition=("BEFORE DELETE OR UPDATE OR TRUNCATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    TriggerHeld(
        name="postings are append-only",
        sentence="Postings of the ledger cannot be changed or deleted.",
        table="ledger_postings",
        trigger="postings_are_append_only",
        definition=("BEFORE DELETE OR UPDATE OR TRUNCATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    TriggerHeld(
        name="balances follow the postings",
        sentence="Each posting changes the balances of people's accounts in its own transaction.",
        table="ledger_postings",
        trigger="postings_change_balances",
        definition=("AFTER INSERT ON", "FOR EACH STATEMENT", "ledger_accounts"),
    ),
    TriggerHeld(
        name="transfers commit with their postings",
        sentence="A transfer does not commit unless its postings add up to its total.",
        table="ledger_transfers",
        trigger="transfers_add_up",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "total_cents"),
    ),
    TriggerHeld(
        name="no posting is added later",
        sentence="A posting does not commit unless its transfer's postings add up to the total.",
        table="ledger_postings",
        trigger="postings_add_up",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "total_cents"),
    ),
    Invariant(
        name="postings add up",
        sentence="The postings of each transfer add up to its total.",
        query="SELECT t.id FROM ledger_transfers t LEFT JOIN ("
        "   SELECT transfer_id, sum(cents) AS cents FROM ledger_postings GROUP BY transfer_id) AS p"
        "   ON p.transfer_id = t.id"
        " WHERE p.cents IS DISTINCT FROM t.total_cents",
    ),
    Invariant(
        name="balances are those of the postings",
        sentence="The balance of each person's account is the sum of its postings.",
        query="SELECT a.no FROM ledger_accounts a LEFT JOIN ("  # noqa: S608 - a constant
        f"   SELECT no, sum(debit) AS debits, sum(credit) AS credits FROM ({SIDES}) AS sides"
        "   GROUP BY no) AS p USING (no)"
        " WHERE a.owner_id IS NOT NULL"
        "   AND (a.debits_cents, a.credits_cents)"
        "     IS DISTINCT FROM (coalesce(p.debits, 0), coalesce(p.credits, 0))",
    ),
)
