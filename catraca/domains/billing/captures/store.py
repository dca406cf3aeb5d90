"""The rows of captures, and the rules they keep."""

from catraca.domains.billing.captures.model import Capture, Provider, Receipt
from catraca.domains.billing.charges.model import ChargeId
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld
from catraca.platform.ids import new_id

COLUMNS = "id, charge_id, provider, provider_ref, amount_cents, excess_cents, captured_at, confirmed_by"


async def insert_capture(
    db: Db, charge_id: ChargeId, receipt: Receipt, *, excess_cents: int
) -> Capture | None:
    """Insert the capture of a receipt; None if its reference was captured before, for any charge."""
    row = await db.fetchrow(
        "INSERT INTO captures"  # noqa: S608 - a constant
        "   (id, charge_id, provider, provider_ref, amount_cents, excess_cents, confirmed_by)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7)"
        f" ON CONFLICT ON CONSTRAINT one_capture_a_reference DO NOTHING RETURNING {COLUMNS}",
        new_id(),
        charge_id,
        receipt.provider,
        receipt.reference,
        receipt.amount_cents,
        excess_cents,
        receipt.confirmed_by,
    )
    return None if row is None else Capture(**row)


async def read_capture(db: Db, provider: Provider, reference: str) -> Capture | None:
    row = await db.fetchrow(
        f"SELECT {COLUMNS} FROM captures WHERE provider = $1 AND provider_ref = $2",  # noqa: S608
        provider,
        reference,
    )
    return None if row is None else Capture(**row)


async def read_captures_of(db: Db, charge_id: ChargeId, *, limit: int) -> list[Capture]:
    """The captures of a charge, oldest first."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM captures WHERE charge_id = $1 ORDER BY id LIMIT $2",  # noqa: S608
        charge_id,
        limit,
    )
    return [Capture(**row) for row in rows]


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="nothing is captured twice",
        sentence="Each reference of a provider has at most one capture.",
        table="captures",
        constraint="one_capture_a_reference",
        definition=("UNIQUE (provider, provider_ref)",),
    ),
    TriggerHeld(
        name="captures are append-only",
        sentence="Captures cannot be changed or deleted.",
        table="captures",
        trigger="captures_are_append_only",
        definition=("BEFORE DELETE OR UPDATE OR TRUNCATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
    TriggerHeld(
        name="captures pay their charge",
        sentence="A capture does not commit unless it is counted in what was paid of its charge.",
        table="captures",
        trigger="captures_pay_their_charge",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "FOR NO KEY UPDATE", "paid_cents"),
    ),
    TriggerHeld(
        name="captured cash commits with its transfer",
        sentence="A capture of cash does not commit without its transfer.",
        table="captures",
        trigger="captured_cash_is_posted",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "ledger_transfers"),
    ),
    TriggerHeld(
        name="captured transfers commit with their posting",
        sentence="A capture of any other money does not commit without its transfer.",
        table="captures",
        trigger="captured_transfers_are_posted",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "ledger_transfers"),
    ),
    Invariant(
        name="a charge is paid by its captures",
        sentence="What was paid of a charge is the sum of its captures, without their excess.",
        query="SELECT c.id FROM charges c LEFT JOIN ("
        "   SELECT charge_id, sum(amount_cents - excess_cents) AS cents FROM captures GROUP BY charge_id"
        " ) AS p ON p.charge_id = c.id"
        " WHERE c.paid_cents <> coalesce(p.cents, 0)",
    ),
    Invariant(
        name="captured money is posted",
        sentence="Each capture has its transfer, with the same amount.",
        query="SELECT c.id FROM captures c"
        " LEFT JOIN ledger_transfers t ON t.cause_id = c.id"
        "   AND t.kind = CASE c.provider WHEN 'cash' THEN 'cash_captured' ELSE 'bank_captured' END"
        " LEFT JOIN LATERAL ("
        "   SELECT sum(p.cents) AS cents FROM ledger_postings p JOIN ledger_accounts a ON a.no = p.debit_no"
        "   WHERE p.transfer_id = t.id AND a.kind IN ('driver', 'bank')) AS received ON true"
        " WHERE received.cents IS DISTINCT FROM c.amount_cents",
    ),
)
