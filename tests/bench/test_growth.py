"""Tables filled with finished rides and past appointments."""

import asyncpg
import pytest

from bench.growth.history import MANY_ROWS, add_history
from catraca.settings.rides import RideSettings
from tests.servers import Stack

TABLES = ("rides", "ride_offers", "ride_accept_attempts", "matchings", "claims", "appointments")


# Benchmarks run on the embedded PostgreSQL; Debian's is too old for `uuidv7`.
@pytest.mark.parametrize("stack", ["embedded"], indirect=True)
async def test_history_has_as_many_rides_and_appointments_as_wanted(stack: Stack) -> None:
    url = await stack.migrated_database("history")
    await add_history(url, 1000)
    db = await asyncpg.connect(url)
    try:
        counts = {table: await db.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES}
        open_rides = await db.fetchval("SELECT count(*) FROM rides WHERE status <> 'COMPLETED'")
        oldest = await db.fetchval("SELECT now() - min(attempt_at) FROM ride_accept_attempts")
        upcoming = await db.fetchval("SELECT count(*) FROM appointments WHERE ends_at > now()")
    finally:
        await db.close()
    assert counts == dict.fromkeys(TABLES, 1000)
    assert (open_rides, upcoming) == (0, 0)
    # The pruner finds nothing to delete.
    assert oldest * (MANY_ROWS / 1000) < RideSettings.model_fields["attempt_retention"].default
