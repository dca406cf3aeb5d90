"""Open, pay and expire the charge of a ride.

The charge's row is locked first, then the ride's: a payment and the end of its time wait for each other.
"""

from uuid import UUID

from catraca.domains.billing.charges import store
from catraca.domains.billing.charges.errors import ChargeNotFound
from catraca.domains.billing.charges.model import Actor, BillingRules, Charge, ChargeId, NewCharge
from catraca.domains.billing.ledger.model import TransferKind, plan_transfer
from catraca.domains.billing.ledger.service import post_transfer
from catraca.domains.people import PersonalData, UserId
from catraca.domains.rides import Ride, RideId, expire_payment, pay_ride, read_own_ride
from catraca.events import ChargeExpired, ChargeOpened, ChargePaid
from catraca.platform.database import Db, outbox, timers
from catraca.platform.ids import new_id

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
    await _post(db, charge, "charge_opened", charge.id)
    if charge.expires_at is not None:
        await timers.set_timer(db, store.CHARGE_DUE, charge.id, due_at=charge.expires_at)


async def read_charge(db: Db, ride_id: UUID, *, caller_id: UUID, sees_all: bool) -> Charge:
    """Return the ride's charge to its parties and to callers who see all."""
    charge = await store.read_charge_of_ride(db, RideId(ride_id))
    if charge is None or not (sees_all or charge.is_party(caller_id)):
        raise ChargeNotFound
    return charge


async def confirm_cash(db: Db, ride_id: UUID, *, by: UserId, rules: BillingRules) -> Charge:
    """The driver received the fare in cash: the charge is paid, also after `expires_at`.

    A repeat changes nothing. Opens the charge if `ride.completed` was not handled yet.
    """
    ride = await read_own_ride(db, ride_id, caller_id=by, sees_all=False)
    if ride.accepted_driver_id != by:
        raise ChargeNotFound
    charge = await store.lock_charge_of_ride(db, ride.id)
    if charge is None and ride.status == "COMPLETED":
        await open_charge(db, _fare_of(ride), rules)
        charge = await store.lock_charge_of_ride(db, ride.id)
    if charge is None:
        raise ChargeNotFound
    if not charge.may_become("PAID"):
        return charge
    capture_id = new_id()
    await store.insert_cash_capture(db, capture_id, charge, confirmed_by=by)
    await _post(db, charge, "cash_captured", capture_id)
    charge = await store.move_charge(db, charge, "PAID", actor="driver", actor_id=by)
    await _finish_payment(db, charge, actor="driver", by=by)
    await timers.cancel_timer(db, store.CHARGE_DUE, charge.id)
    return charge


def _fare_of(ride: Ride) -> NewCharge:
    assert ride.accepted_driver_id is not None and ride.final_fare_cents is not None  # noqa: PT018
    return NewCharge(
        ride_id=ride.id,
        payer_id=ride.passenger_id,
        payee_id=ride.accepted_driver_id,
        amount_cents=ride.final_fare_cents,
    )


async def expire_charge(db: Db, charge_id: ChargeId) -> None:
    """End the time to pay; no change unless the charge is pending. The debt stays in the ledger."""
    charge = await store.lock_charge(db, charge_id)
    if charge is None or not charge.may_become("EXPIRED"):
        return
    charge = await store.move_charge(db, charge, "EXPIRED", actor="system", actor_id=None)
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


async def _post(db: Db, charge: Charge, kind: TransferKind, cause_id: UUID) -> None:
    transfer = plan_transfer(
        kind,
        cause_id,
        amount_cents=charge.amount_cents,
        basis_points=charge.commission_basis_points,
        currency=charge.currency,
        driver_id=charge.payee_id,
    )
    await post_transfer(db, transfer)


async def _export(db: Db, user_id: UserId) -> object:
    return [dict(row) for row in await store.read_charges_of(db, user_id, limit=CHARGES_EXPORTED)]


async def _erase(db: Db, user_id: UserId) -> None:
    """Charges and the ledger have ids only, and stay for the accounts."""


PERSONAL_DATA = PersonalData("charges", export=_export, erase=_erase)
