"""The product: from a full queue to users, sign-up rows and events, without a relay."""

import asyncio
from dataclasses import replace
from time import perf_counter

from bench.sign_ups.world import LIMIT_SECONDS, fill, open_world
from catraca.domains.onboarding.handlers import sign_ups
from catraca.events import SIGN_UP_QUEUE
from catraca.platform.bus import QueueWorker


async def rows_per_second(database_url: str, amqp_url: str | None, *, count: int) -> float:
    async with open_world(database_url, amqp_url) as world:
        await fill(world.transport, count)
        left, done = count, asyncio.Event()
        write = sign_ups.write

        async def counted(db, batch):
            nonlocal left
            faults = await write(db, batch)
            left -= len(batch)
            if left <= 0:
                done.set()
            return faults

        worker = QueueWorker(
            world.topology.queue(SIGN_UP_QUEUE),
            replace(sign_ups, write=counted),
            topology=world.topology,
            transport=world.transport,
            database=world.database,
        )
        stopping = asyncio.Event()
        began = perf_counter()
        running = asyncio.create_task(worker.run(stopping))
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await done.wait()
        finally:
            stopping.set()
            await running
        return count / (perf_counter() - began)
