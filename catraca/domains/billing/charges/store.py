"""The rows of charges and their steps, and the rules they keep."""

from uuid import UUID

from catraca.domains.billing.charges.model import Actor, BillingRules, Charge, ChargeId, NewCharge, Status
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule, TriggerHeld
from catraca.platform.database.timers import TimerKind
from catraca.platform.ids import new_id

CHARGE_DUE = TimerKind("billing.charge_due")
COLUMNS = (
    "id, ride_id, payer_id, payee_id, amount_cents, paid_cents, currency, commission_basis_points, status,"
    " version, opened_at, expires_at, updated_at"
)


async def insert_charge(db: Db, new: NewCharge, rules: BillingRules) -> Charge | None:
    """Insert a pending charge with its first step; None if the ride has one.

    A zero charge is paid at once.
    """
    row = await db.fetchrow(
        "WITH charge AS ("  # noqa: S608
        "   INSERT INTO charges (id, ride_id, purpose, payer_id, payee_id, amount_cents, currency,"
        "     commission_basis_points, status, expires_at)"
        "   VALUES ($1, $2, 'fare', $3, $4, $5, $6, $7,"
        "     CASE $5::bigint WHEN 0 THEN 'PAID' ELSE 'PENDING' END, clock_timestamp() + $8::interval)"
        f"   ON CONFLICT (ride_id, purpose) DO NOTHING RETURNING {COLUMNS}),"
        " step AS ("
        "   INSERT INTO charge_events (charge_id, seq, to_status, at, actor)"
        "   SELECT id, version, status, opened_at, 'system' FROM charge)"
        f" SELECT {COLUMNS} FROM charge",
        new_id(),
        new.ride_id,
        new.payer_id,
        new.payee_id,
        new.amount_cents,
        rules.currency,
        rules.commission_basis_points,
        rules.payment_timeout,
    )
    return None if row is None else Charge(**row)


async def read_charge(db: Db, charge_id: ChargeId) -> Charge | None:
    row = await db.fetchrow(f"SELECT {COLUMNS} FROM charges WHERE id = $1", charge_id)  # noqa: S608
    return None if row is None else Charge(**row)


async def charges_page(db: Db, *, status: Status | None, before: ChargeId | None, limit: int) -> list[Charge]:
    """Charges in this state, or all of them, newest first."""
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM charges"  # noqa: S608
        " WHERE ($1::text IS NULL OR status = $1) AND ($2::uuid IS NULL OR id < $2)"
        " ORDER BY id DESC LIMIT $3",
        status,
        before,
        limit,
    )
    return [Charge(**row) for row in rows]


async def read_charge_of_ride(db: Db, ride_id: RideId) -> Charge | None:
    row = await db.fetchrow(f"SELECT {COLUMNS} FROM charges WHERE ride_id = $1", ride_id)  # noqa: S608
    return None if row is None else Charge(**row)


async def lock_charge_of_ride(db: Db, ride_id: RideId) -> Charge | None:
    """Lock the ride's charge until the transaction ends."""
    row = await db.fetchrow(
        f"SELECT {COLUMNS} FROM charges WHERE ride_id = $1 FOR NO KEY UPDATE",  # noqa: S608
        ride_id,
    )
    return None if row is None else Charge(**row)


async def lock_charge(db: Db, charge_id: ChargeId) -> Charge | None:
    row = await db.fetchrow(
        f"SELECT {COLUMNS} FROM charges WHERE id = $1 FOR NO KEY UPDATE",  # noqa: S608
        charge_id,
    )
    return None if row is None else Charge(**row)


async def change_charge(
    db: Db, charge: Charge, to: Status, *, pays_cents: int = 0, actor: Actor, actor_id: UUID | None
) -> Charge:
    """Set the status of a locked charge and count a payment. A new status has its step."""
    row = await db.fetchrow(
        "WITH charge AS ("  # noqa: S608
        "   UPDATE charges SET status = $4, paid_cents = paid_cents + $5, updated_at = clock_timestamp(),"
        "     version = version + CASE WHEN status = $4 THEN 0 ELSE 1 END"
        "   WHERE id = $1 AND version = $2 AND status = $3"
        f"   RETURNING {COLUMNS}),"
        " step AS ("
        "   INSERT INTO charge_events (charge_id, seq, from_status, to_status, at, actor, actor_id)"
        "   SELECT id, version, $3, status, updated_at, $6, $7 FROM charge WHERE status <> $3)"
        f" SELECT {COLUMNS} FROM charge",
        charge.id,
        charge.version,
        charge.status,
        to,
        pays_cents,
        actor,
        actor_id,
    )
    assert row is not None, "the charge is locked while it is changed"
    return Charge(**row)


async def read_charges_of(db: Db, user_id: UserId, *, limit: int) -> list[Row]:
    """The newest charges of a payer or payee, without the other party."""
    rows = await db.fetch(
        "SELECT id, ride_id, purpose, amount_cents, paid_cents, currency, status, opened_at, expires_at,"
        "   updated_at, payer_id = $1 AS is_payer"
        " FROM charges WHERE payer_id = $1 OR payee_id = $1 ORDER BY id DESC LIMIT $2",
        user_id,
        limit,
    )
    return list(rows)


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="one charge for each ride",
        sentence="A ride has at most one charge of its fare.",
        table="charges",
        constraint="one_charge_a_ride_and_purpose",
        definition=("UNIQUE", "(ride_id, purpose)"),
    ),
    ConstraintHeld(
        name="only allowed moves of a charge",
        sentence="Each step of a charge is in the table of moves.",
        table="charge_events",
        constraint="only_allowed_charge_moves",
        definition=("PENDING>PAID", "PENDING>EXPIRED", "EXPIRED>PAID"),
    ),
    ConstraintHeld(
        name="a charge stands where its steps end",
        sentence="The status of a charge is that of its last step.",
        table="charges",
        constraint="charges_stand_where_their_steps_end",
        definition=("FOREIGN KEY (id, version, status)",),
    ),
    ConstraintHeld(
        name="paid in full or not paid",
        sentence="A charge is paid if and only if its whole amount was received.",
        table="charges",
        constraint="paid_charges_are_paid_in_full",
        definition=("paid_cents = amount_cents", "PAID"),
    ),
    ConstraintHeld(
        name="no charge is overpaid",
        sentence="What is received beyond a charge is not counted as its payment.",
        table="charges",
        constraint="no_charge_is_overpaid",
        definition=("paid_cents <= amount_cents",),
    ),
    TriggerHeld(
        name="no charge is paid without its captures",
        sentence="What was paid of a charge does not commit unless its captures add up to it.",
        table="charges",
        trigger="payments_are_captured",
        definition=("AFTER INSERT OR UPDATE OF paid_cents ON", "DEFERRABLE INITIALLY DEFERRED", "captures"),
    ),
    TriggerHeld(
        name="charges commit with their transfer",
        sentence="A charge above zero does not commit without its transfer.",
        table="charges",
        trigger="charges_are_posted",
        definition=("AFTER INSERT ON", "DEFERRABLE INITIALLY DEFERRED", "ledger_transfers"),
    ),
    Invariant(
        name="a ride is paid with its charge",
        sentence="A ride with a charge is paid, or its payment has expired, if and only if its charge is so.",
        query="SELECT r.id FROM charges c JOIN rides r ON r.id = c.ride_id"
        " WHERE r.status IS DISTINCT FROM CASE c.status"
        "   WHEN 'PENDING' THEN 'COMPLETED' WHEN 'EXPIRED' THEN 'PAYMENT_EXPIRED' ELSE 'PAID' END"
        " UNION ALL "
        "SELECT r.id FROM rides r WHERE r.status IN ('PAID', 'PAYMENT_EXPIRED')"
        "   AND NOT EXISTS (SELECT FROM charges c WHERE c.ride_id = r.id)",
    ),
    Invariant(
        name="charges are posted",
        sentence="Each charge above zero has its transfer, with the same amount.",
        query="SELECT c.id FROM charges c"
        " LEFT JOIN ledger_transfers t ON t.kind = 'charge_opened' AND t.cause_id = c.id"
        " WHERE c.amount_cents > 0 AND t.total_cents IS DISTINCT FROM c.amount_cents",
    ),
    Invariant(
        name="a completed ride has its charge",
        sentence="Ten minutes after its completion was published, a ride has its charge or a dead letter.",
        # Rides that were completed before the first charge have none.
        query="SELECT r.id FROM outbox_sent s JOIN rides r ON r.id = s.aggregate_id"
        " WHERE s.sent_at BETWEEN clock_timestamp() - interval '23 hours'"
        "     AND clock_timestamp() - interval '10 minutes'"
        "   AND s.sent_at > (SELECT min(opened_at) FROM charges)"
        "   AND s.routing_key = 'ride.completed' AND r.status = 'COMPLETED'"
        "   AND NOT EXISTS (SELECT FROM charges c WHERE c.ride_id = r.id)"
        "   AND NOT EXISTS (SELECT FROM dead_letters d"
        "     WHERE d.message_id = s.id AND d.queue = 'billing_events_queue')",
    ),
)
