"""Reads of the whole ledger, in pages."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from catraca.domains.billing.export.model import Balance, Posted
from catraca.domains.billing.ledger.model import Account
from catraca.domains.billing.ledger.store import SIDES
from catraca.platform.database import Db


async def read_as_of_now(db: Db) -> None:
    """All later reads of this transaction see the ledger as it is now. Must be the first statement."""
    await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


async def first_and_last(db: Db) -> tuple[datetime, datetime, int] | None:
    """The times of the first and the last transfer, and the number of postings; None if there are none."""
    row = await db.fetchrow(
        "SELECT min(posted_at) AS first, max(posted_at) AS last,"
        " (SELECT count(*) FROM ledger_postings) AS postings FROM ledger_transfers"
    )
    assert row is not None, "an aggregate has one row"
    return None if row["first"] is None else (row["first"], row["last"], row["postings"])


async def postings_after(db: Db, last: tuple[UUID, int], *, limit: int) -> Sequence[Posted]:
    """The postings after this one, in the order of their transfers' ids, and of their numbers."""
    rows = await db.fetch(
        "SELECT p.transfer_id, t.posted_at, t.kind, t.cause_id, p.n, d.kind AS debit,"
        "   d.owner_id AS debit_owner_id, c.kind AS credit, c.owner_id AS credit_owner_id, p.currency,"
        "   p.cents"
        " FROM ledger_postings p JOIN ledger_transfers t ON t.id = p.transfer_id"
        " JOIN ledger_accounts d ON d.no = p.debit_no JOIN ledger_accounts c ON c.no = p.credit_no"
        " WHERE (p.transfer_id, p.n) > ($1, $2) ORDER BY p.transfer_id, p.n LIMIT $3",
        *last,
        limit,
    )
    return [Posted(**row) for row in rows]


async def read_balances(db: Db) -> list[Balance]:
    """Of people's accounts as they are kept, of the platform's as the sum of their postings."""
    rows = await db.fetch(
        "SELECT kind, owner_id, currency, debits_cents - credits_cents AS cents FROM ledger_accounts"  # noqa: S608
        " WHERE owner_id IS NOT NULL"
        " UNION ALL"
        f" SELECT a.kind, NULL, a.currency, sum(p.debit - p.credit)::bigint FROM ({SIDES}) AS p"
        "   JOIN ledger_accounts a USING (no) WHERE a.owner_id IS NULL GROUP BY a.kind, a.currency"
        " ORDER BY 1, 2 NULLS FIRST, 3"
    )
    return [
        Balance(account=Account(row["kind"], row["owner_id"]), currency=row["currency"], cents=row["cents"])
        for row in rows
    ]
