"""Concurrent attempts to accept in one process."""

import asyncio
from uuid import UUID

from catraca.domains.rides.acceptance.model import AcceptedRide, Attempt
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.errors import Refusal
from catraca.platform.ids import new_id
from tests.domains.rides.desk import Desk


def attempt_at(ride_id: UUID, driver_id: UUID, key: str | None = None, **fields: str) -> Attempt:
    return Attempt(
        id=new_id(), ride_id=ride_id, driver_id=driver_id, actor_id=driver_id, idempotency_key=key, **fields
    )


async def all_at_once(acceptance: Acceptance, *attempts: Attempt) -> list[AcceptedRide | Exception]:
    return await asyncio.gather(*map(acceptance.accept_ride, attempts), return_exceptions=True)


def codes(outcomes: list[AcceptedRide | Exception]) -> list[str]:
    """For each result: the code of the refusal, or the name of the type."""
    return [one.code if isinstance(one, Refusal) else type(one).__name__ for one in outcomes]


async def waiting_for_locks(desk: Desk) -> int:
    rows = await desk.sql(
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return len(rows)
