"""The full path: relay, bus, consumer and inbox in one process."""

import asyncio
from statistics import quantiles
from time import perf_counter, time
from uuid import uuid4

from bench.events.fixtures import (
    LIMIT_SECONDS,
    EventFixture,
    Measured,
    counting,
    open_fixture,
    record_events,
)
from catraca.platform.bus import QueueWorker
from catraca.platform.bus.relay import Relay
from catraca.platform.database import outbox

BATCH = 100
PAUSE_SECONDS = 0.02


async def events_per_second(database_url: str, amqp_url: str | None, *, count: int) -> float:
    """The rate from committed rows, all there at the start, to handled events, a hundred per transaction."""
    async with open_fixture(database_url, amqp_url, batch=BATCH) as fixture:
        await record_events(fixture.database, count)
        left = count
        done = asyncio.Event()

        def handled(_: Measured) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set()

        began = perf_counter()
        await _run(fixture, handled, done.wait())
        return count / (perf_counter() - began)


async def relayed_per_second(database_url: str, *, count: int) -> float:
    """The rate of the relay alone; sent events in the database stay there."""
    async with open_fixture(database_url, None, batch=BATCH) as fixture:
        await record_events(fixture.database, count)
        relay = Relay(fixture.database, fixture.transport)
        began = perf_counter()
        while await relay.send_batch():
            pass
        return count / (perf_counter() - began)


async def latency_milliseconds(database_url: str, amqp_url: str | None, *, count: int) -> tuple[float, float]:
    """Median and 99th percentile from commit to handler, one event at a time on an idle system."""
    async with open_fixture(database_url, amqp_url, batch=1) as fixture:
        took: list[float] = []
        handled_one = asyncio.Event()

        def handled(event: Measured) -> None:
            took.append(time() - event.committed_at)
            handled_one.set()

        async def one_by_one() -> None:
            for _ in range(count):
                handled_one.clear()
                await fixture.database.run(
                    lambda db: outbox.record(db, Measured(subject_id=uuid4(), committed_at=time()))
                )
                await handled_one.wait()
                await asyncio.sleep(PAUSE_SECONDS)

        await _run(fixture, handled, one_by_one())
        warm = [1000 * seconds for seconds in took[count // 10 :]]
        percentiles = quantiles(warm, n=100)
        return percentiles[49], percentiles[98]


async def _run(fixture: EventFixture, handled, until) -> None:
    stopping = asyncio.Event()
    consumer = QueueWorker(
        fixture.queue,
        counting(fixture.queue, handled),
        topology=fixture.topology,
        transport=fixture.transport,
        database=fixture.database,
    )
    relay = Relay(fixture.database, fixture.transport)
    running = [asyncio.create_task(part.run(stopping)) for part in (consumer, relay)]
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await until
    finally:
        stopping.set()
        await asyncio.gather(*running)
