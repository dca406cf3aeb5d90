"""Lateness of timers on an idle system with many pending."""

import asyncio
import random
from datetime import timedelta
from statistics import quantiles
from uuid import UUID, uuid4

from bench.events.fixtures import LIMIT_SECONDS
from catraca.platform.database import Database, Db
from catraca.platform.database.timer_runner import TimerRunner
from catraca.platform.database.timers import TimerHandlers, TimerKind, set_timer

PENDING = 100_000
MEASURED = TimerKind("bench.measured")
LATEST_SECONDS = 5.0


async def lateness_milliseconds(database_url: str, *, count: int) -> tuple[float, float]:
    """Median and 99th percentile from due to handler, for timers spread over a few seconds."""
    database = await Database.open(database_url)
    fires = TimerHandlers()
    late: list[float] = []
    done = asyncio.Event()

    @fires(MEASURED)
    async def note(db: Db, subject_id: UUID) -> None:
        late.append(await _late_seconds(db, subject_id))
        if len(late) == count:
            done.set()

    await database.run(_set_many)
    stopping = asyncio.Event()
    keeping = asyncio.create_task(TimerRunner(database, [fires]).run(stopping))
    for _ in range(count):
        due_in = timedelta(seconds=random.uniform(0.05, LATEST_SECONDS))
        await database.run(lambda db, due_in=due_in: set_timer(db, MEASURED, uuid4(), due_in=due_in))
    async with asyncio.timeout(LIMIT_SECONDS):
        await done.wait()
    stopping.set()
    await keeping
    await database.close()
    percentiles = quantiles((1000 * seconds for seconds in late), n=100)
    return percentiles[49], percentiles[98]


async def _set_many(db: Db) -> None:
    await db.execute("DELETE FROM timers")
    await db.execute(
        "INSERT INTO timers (kind, subject_id, due_at, awake_at)"
        " SELECT $1, gen_random_uuid(), moment, moment FROM ("
        "   SELECT clock_timestamp() + make_interval(secs => 3600 + number) AS moment"
        "   FROM generate_series(1, $2) AS number) AS moments",
        MEASURED,
        PENDING,
    )


async def _late_seconds(db: Db, subject_id: UUID) -> float:
    return await db.fetchval(
        "SELECT extract(epoch FROM clock_timestamp() - due_at)::float8 FROM timers"
        " WHERE kind = $1 AND subject_id = $2",
        MEASURED,
        subject_id,
    )
