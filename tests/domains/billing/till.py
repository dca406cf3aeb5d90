"""Completed rides and their charges, at one API."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import msgspec

from catraca.domains.billing import BillingRules
from catraca.domains.billing.charges import jobs
from catraca.domains.billing.charges.handlers import charge_fare
from catraca.events import RideCompleted
from catraca.platform.bus import Message
from catraca.platform.ids import new_id
from tests.conftest import bearer
from tests.domains.rides.desk import Desk

RULES = BillingRules(currency="BRL", commission_basis_points=1000, payment_timeout=timedelta(days=1))


class Till(Desk):
    """A desk whose rides are charged. Nothing consumes queues here: `charge` handles the event."""

    async def completed(self, passenger_id: UUID | None = None) -> tuple[UUID, UUID]:
        """Return a new completed ride and its driver."""
        ride_id, driver_id = await self.accepted(passenger_id)
        await self.drive_to("COMPLETED", ride_id, driver_id)
        return ride_id, driver_id

    async def charge(
        self, ride_id: UUID, *, rules: BillingRules = RULES, fare_cents: int | None = None
    ) -> None:
        """Handle the ride's `ride.completed`."""
        (event,) = [one for one in await self.events(ride_id) if isinstance(one, RideCompleted)]
        if fare_cents is not None:
            event = msgspec.structs.replace(event, fare_cents=fare_cents)
        message = Message(id=new_id(), exchange=event.exchange, key="ride.completed", body=b"{}")
        await self.database.run(lambda db: charge_fare(db, event, message, rules))

    async def charged(self, *, rules: BillingRules = RULES) -> tuple[UUID, UUID]:
        """Return a completed ride with a charge, and its driver."""
        ride_id, driver_id = await self.completed()
        await self.charge(ride_id, rules=rules)
        return ride_id, driver_id

    async def confirm(self, ride_id: UUID, driver_id: UUID) -> httpx.Response:
        return await self.act(ride_id, "charge/cash", headers=bearer("driver", driver_id))

    async def expire(self, ride_id: UUID) -> None:
        """Run the timer of the ride's charge."""
        charge_id = (await self.charge_row(ride_id))["id"]
        await self.database.run(lambda db: jobs.expire(db, charge_id))

    async def charge_row(self, ride_id: UUID) -> Any:
        (row,) = await self.sql("SELECT * FROM charges WHERE ride_id = $1", ride_id)
        return row

    async def states(self, ride_id: UUID) -> tuple[str, str]:
        """The status of the ride and of its charge."""
        return await self.status(ride_id), (await self.charge_row(ride_id))["status"]

    async def balance_cents(self, driver_id: UUID) -> int:
        """What the driver owes; below zero, what the driver is owed."""
        return (
            await self.sql(
                "SELECT coalesce(sum(debits_cents - credits_cents), 0)::bigint AS owed"
                " FROM ledger_accounts WHERE owner_id = $1",
                driver_id,
            )
        )[0]["owed"]

    async def entries(self, driver_id: UUID) -> list[Any]:
        """The rows of the driver's statement, oldest first."""
        return await self.sql(
            "SELECT e.* FROM ledger_entries e JOIN ledger_accounts a ON a.no = e.account_no"
            " WHERE a.owner_id = $1 ORDER BY n",
            driver_id,
        )
