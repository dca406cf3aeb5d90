"""Subscriptions to Redis."""

import asyncio

from catraca.platform.redis_pubsub import Subscriber
from tests.servers import Stack, on_one_stack

# Turns of the event loop until a subscriber is connected, with a reserve.
TURNS = 60
END_SECONDS = 10


@on_one_stack
async def test_subscriber_ends_when_canceled_at_any_step(stack: Stack) -> None:
    for turns in range(TURNS):
        subscriber = Subscriber(stack.redis_url, {"channel": lambda payload: None})
        running = asyncio.create_task(subscriber.run(asyncio.Event()))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        _, left = await asyncio.wait([running], timeout=END_SECONDS)
        assert not left, f"canceled after {turns} turns, it still runs"
