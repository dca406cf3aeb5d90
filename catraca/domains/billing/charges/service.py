"""Open and expire the charge of a ride, and count what is paid of it.

The charge's row is locked first, then the ride's: a payment and the end of its time wait for each other.
"""

from uuid import UUID

from catraca.domains.billing.charges import store
from catraca.domains.billing.charges.errors import ChargeNotFound
from catraca.domains.billing.charges.model import Actor, BillingRules, Charge, ChargeId, NewCharge, Status
from catraca.domains.billing.ledger.model import plan_transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.domains.people import PersonalData, UserId
from catraca.domains.rides import RideId, expire_payment, pay_ride
from catraca.events import ChargeExpired, ChargeOpened, ChargePaid
from catraca.platform.database import Db, outbox, timers

CHARGES_EXPORTED = 1000


async def open_charge(db: Db, new: NewCharge, rules: BillingRules) -> None:
    """Open the charge of a completed ride. A repeat changes nothing. A zero fare is paid at once."""
    charge = await store.insert_charge(db, new, rules)
    if charge is None:
        return
    await outbox.record(
        db,
        ChargeOpened(
            charge_id=charge.id,
            ride_id=charge.ride_id,
            payer_id=charge.payer_id,
            payee_id=charge.payee_id,
            amount_cents=charge.amount_cents,
            currency=charge.currency,
            expires_at=charge.expires_at,
        ),
    )
    if charge.status == "PAID":
        await _finish_payment(db, charge, actor="system", by=None)
        return
    opened = plan_transfer(
        "charge_opened",
        charge.id,
        parts={"amount": charge.amount_cents},
        currency=charge.currency,
        driver_id=charge.payee_id,
    )
    await post_transfer(db, opened)
    if charge.expires_at is not None:
        await timers.set_timer(db, store.CHARGE_DUE, charge.id, due_at=charge.expires_at)


async def read_charge(db: Db, ride_id: UUID, *, caller_id: UUID, sees_all: bool) -> Charge:
    """Return the ride's charge to its parties and to callers who see all."""
    charge = await store.read_charge_of_ride(db, RideId(ride_id))
    if charge is None or not (sees_all or charge.is_party(caller_id)):
        raise ChargeNotFound
    return charge


async def list_charges(db: Db, *, status: Status | None, before: UUID | None, limit: int) -> list[Charge]:
    """Charges in this state, or all of them, newest first."""
    return await store.charges_page(
        db, status=status, before=None if before is None else ChargeId(before), limit=limit
    )


async def count_payment(db: Db, charge: Charge, cents: int, *, actor: Actor, by: UUID) -> Charge:
    """Count captured money towards a locked charge. The last cent makes charge and ride paid."""
    to: Status = "PAID" if cents == charge.due_cents else charge.status
    charge = await store.change_charge(db, charge, to, pays_cents=cents, actor=actor, actor_id=by)
    if charge.status == "PAID":
        await _finish_payment(db, charge, actor=actor, by=by)
        await timers.cancel_timer(db, store.CHARGE_DUE, charge.id)
    return charge


async def expire_charge(db: Db, charge_id: ChargeId) -> None:
    """End the time to pay; no change unless the charge is pending. The debt stays in the ledger."""
    charge = await store.lock_charge(db, charge_id)
    if charge is None or not charge.may_become("EXPIRED"):
        return
    charge = await store.change_charge(db, charge, "EXPIRED", actor="system", actor_id=None)
    await outbox.record(
        db,
        ChargeExpired(
            charge_id=charge.id,
            ride_id=charge.ride_id,
            amount_cents=charge.amount_cents,
            currency=charge.currency,
            expired_at=charge.updated_at,
        ),
    )
    await expire_payment(db, charge.ride_id)


async def _finish_payment(db: Db, charge: Charge, *, actor: Actor, by: UUID | None) -> None:
    await outbox.record(
        db,
        ChargePaid(
            charge_id=charge.id,
            ride_id=charge.ride_id,
            amount_cents=charge.amount_cents,
            currency=charge.currency,
            paid_at=charge.updated_at,
        ),
    )
    await pay_ride(db, charge.ride_id, actor=actor, by=by)


async def _export(db: Db, user_id: UserId) -> object:
    return [dict(row) for row in await store.read_charges_of(db, user_id, limit=CHARGES_EXPORTED)]


async def _erase(db: Db, user_id: UserId) -> None:
    """Charges and the ledger have ids only, and stay for the accounts."""


PERSONAL_DATA = PersonalData("charges", export=_export, erase=_erase)
