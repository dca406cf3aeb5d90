"""Opens the charges of completed rides."""

from catraca.domains.billing.charges.model import BillingRules, NewCharge
from catraca.domains.billing.charges.service import open_charge
from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.events import RideCancelled, RideCompleted, RideStarted
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Db

handles = EventHandlers[BillingRules]("billing_events_queue")


@handles(RideCompleted)
async def charge_fare(db: Db, event: RideCompleted, _message: Message, rules: BillingRules) -> None:
    new = NewCharge(
        ride_id=RideId(event.ride_id),
        payer_id=UserId(event.rider_id),
        payee_id=UserId(event.driver_id),
        amount_cents=event.fare_cents,
    )
    await open_charge(db, new, rules)


@handles(RideStarted, RideCancelled)
async def ignore_event(
    _db: Db, _event: RideStarted | RideCancelled, _message: Message, _rules: BillingRules
) -> None:
    """Rides are charged at their completion; cancellations are free."""
