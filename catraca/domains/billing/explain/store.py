"""Reads of all that a charge caused."""

from catraca.domains.billing.charges.model import ChargeId
from catraca.domains.billing.explain.model import Line
from catraca.platform.database import Db


async def read_lines(db: Db, charge_id: ChargeId) -> list[Line]:
    """Steps, captures and postings of a charge, in the order in which they were written."""
    rows = await db.fetch(
        "WITH facts AS ("
        "   SELECT $1::uuid AS id UNION ALL SELECT id FROM captures WHERE charge_id = $1)"
        " SELECT at, kind, what, detail, cents FROM ("
        "   SELECT captured_at AS at, 1 AS place, 0 AS n, 'capture' AS kind, provider AS what,"
        "     provider_ref AS detail, amount_cents AS cents"
        "   FROM captures WHERE charge_id = $1"
        "   UNION ALL"
        "   SELECT t.posted_at, 2, p.n, 'posting', t.kind, d.kind || ' to ' || c.kind, p.cents"
        "   FROM facts f JOIN ledger_transfers t ON t.cause_id = f.id"
        "   JOIN ledger_postings p ON p.transfer_id = t.id"
        "   JOIN ledger_accounts d ON d.no = p.debit_no JOIN ledger_accounts c ON c.no = p.credit_no"
        "   UNION ALL"
        "   SELECT at, 3, seq, 'step', to_status, actor, NULL FROM charge_events WHERE charge_id = $1"
        " ) AS lines ORDER BY at, place, n",
        charge_id,
    )
    return [Line(**row) for row in rows]
