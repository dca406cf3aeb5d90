"""Book money that was received. The charge's row is locked first, so receipts wait for each other."""

from uuid import UUID

from catraca.domains.billing.captures import store
from catraca.domains.billing.captures.errors import ReferenceCaptured
from catraca.domains.billing.captures.model import POSTED_AS, Capture, Receipt, split
from catraca.domains.billing.charges.errors import ChargeNotFound
from catraca.domains.billing.charges.model import Actor, BillingRules, Charge, ChargeId, NewCharge
from catraca.domains.billing.charges.service import count_payment, open_charge
from catraca.domains.billing.charges.store import lock_charge, lock_charge_of_ride, read_charge
from catraca.domains.billing.ledger.model import plan_transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.domains.people import UserId
from catraca.domains.rides import Ride, read_own_ride
from catraca.platform.database import Db, audit

CAPTURES_SHOWN = 100


async def confirm_cash(db: Db, ride_id: UUID, *, by: UserId, rules: BillingRules) -> Charge:
    """The driver received what was still due in cash: the charge is paid, also after `expires_at`.

    A repeat changes nothing. Opens the charge if `ride.completed` was not handled yet.
    """
    ride = await read_own_ride(db, ride_id, caller_id=by, sees_all=False)
    if ride.accepted_driver_id != by:
        raise ChargeNotFound
    charge = await lock_charge_of_ride(db, ride.id)
    if charge is None and ride.status == "COMPLETED":
        await open_charge(db, _fare_of(ride), rules)
        charge = await lock_charge_of_ride(db, ride.id)
    if charge is None:
        raise ChargeNotFound
    if not charge.due_cents:
        return charge
    receipt = Receipt(
        provider="cash",
        # A driver confirms a charge once.
        reference=str(charge.id),
        amount_cents=charge.due_cents,
        confirmed_by=by,
    )
    booked = await _book(db, charge, receipt, actor="driver")
    assert booked is not None, "cash pays all that is due"
    _, charge = booked
    return charge


async def confirm_receipt(db: Db, charge_id: UUID, receipt: Receipt) -> tuple[Capture, Charge]:
    """An operator has seen this money on the bank's statement, sent for this charge.

    A repeat returns the same capture. A part leaves the rest due; what is beyond the charge is excess.
    """
    charge = await lock_charge(db, ChargeId(charge_id))
    if charge is None:
        raise ChargeNotFound
    booked = await _book(db, charge, receipt, actor="operator")
    if booked is None:
        return await _booked_before(db, charge, receipt), charge
    await audit.record(
        db,
        actor_id=receipt.confirmed_by,
        action="charge.captured",
        subject_kind="charge",
        subject_id=charge.id,
        data={"reference": receipt.reference, "amount_cents": receipt.amount_cents},
    )
    return booked


async def read_captures(db: Db, charge_id: UUID) -> tuple[Charge, list[Capture]]:
    charge = await read_charge(db, ChargeId(charge_id))
    if charge is None:
        raise ChargeNotFound
    return charge, await store.read_captures_of(db, charge.id, limit=CAPTURES_SHOWN)


async def _book(db: Db, charge: Charge, receipt: Receipt, *, actor: Actor) -> tuple[Capture, Charge] | None:
    """Insert the capture with its transfer, and count it for the charge; None if it was booked before."""
    shared = split(charge, receipt.amount_cents)
    capture = await store.insert_capture(db, charge.id, receipt, excess_cents=shared.excess_cents)
    if capture is None:
        return None
    transfer = plan_transfer(
        POSTED_AS[receipt.provider],
        capture.id,
        parts=shared.parts,
        currency=charge.currency,
        driver_id=charge.payee_id,
    )
    await post_transfer(db, transfer)
    if shared.pays_cents:
        charge = await count_payment(db, charge, shared.pays_cents, actor=actor, by=receipt.confirmed_by)
    return capture, charge


async def _booked_before(db: Db, charge: Charge, receipt: Receipt) -> Capture:
    """The capture of a repeated receipt; a refusal if it is of another charge or amount."""
    known = await store.read_capture(db, receipt.provider, receipt.reference)
    assert known is not None, "captures are never deleted"
    if (known.charge_id, known.amount_cents) != (charge.id, receipt.amount_cents):
        raise ReferenceCaptured(charge_id=known.charge_id, amount_cents=known.amount_cents)
    return known


def _fare_of(ride: Ride) -> NewCharge:
    assert ride.accepted_driver_id is not None and ride.final_fare_cents is not None  # noqa: PT018
    return NewCharge(
        ride_id=ride.id,
        payer_id=ride.passenger_id,
        payee_id=ride.accepted_driver_id,
        amount_cents=ride.final_fare_cents,
    )
