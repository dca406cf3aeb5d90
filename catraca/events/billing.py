"""Events of charges."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event

Cents = Annotated[int, Meta(description="In hundredths of the currency.", examples=[2550])]


class ChargeEvent(Event, frozen=True, kw_only=True):
    """The base of all events of a charge."""

    exchange = "billing.events"
    about = "charge_id"

    charge_id: Annotated[UUID, Meta(description="The charge.")]
    ride_id: Annotated[UUID, Meta(description="The ride that is charged.")]
    amount_cents: Cents
    currency: Annotated[str, Meta(description="ISO 4217.", examples=["BRL"])]


class ChargeOpened(ChargeEvent, frozen=True, kw_only=True, tag="charge.opened"):
    """A fare is due."""

    payer_id: Annotated[UUID, Meta(description="The passenger.")]
    payee_id: Annotated[UUID, Meta(description="The driver.")]
    expires_at: Annotated[datetime | None, Meta(description="End of the time to pay, if it has one.")] = None


class ChargePaid(ChargeEvent, frozen=True, kw_only=True, tag="charge.paid"):
    """The charge is paid in full."""

    paid_at: Annotated[datetime, Meta(description="Time of the payment.")]


class ChargeExpired(ChargeEvent, frozen=True, kw_only=True, tag="charge.expired"):
    """The charge was not paid in time. It can still be paid."""

    expired_at: Annotated[datetime, Meta(description="Time of the event.")]
