"""Publish and subscribe through Redis. A message is lost to a process that is not subscribed at that moment,
so a process that needs all of them must also read the database.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis.asyncio
import structlog
from redis import exceptions

from catraca.platform.redis_client import RedisAway, RedisClient

log = structlog.get_logger()

RECONNECT_SECONDS = 0.5
CONNECT_SECONDS = 2.0
# A server that stopped answering is noticed after two of these.
SILENCE_SECONDS = 5.0
_LOST = (OSError, exceptions.RedisError, TimeoutError)

OnMessage = Callable[[bytes], None]


async def publish(client: RedisClient, channel: str, payload: bytes) -> bool:
    """Send to the processes subscribed now; False if Redis is away."""
    try:
        await client.run(lambda raw: raw.publish(channel, payload))
    except RedisAway:
        return False
    return True


class Subscriber:
    """Receives messages of the given channels, on its own connection. `connected` is true while it does."""

    def __init__(
        self,
        url: str | None,
        channels: dict[str, OnMessage],
        *,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change` is called when the connection is made or lost: messages in between are lost."""
        self._url = url
        self._channels = {channel.encode(): on_message for channel, on_message in channels.items()}
        self._on_change = on_change
        self.connected = False

    async def run(self, stopping: asyncio.Event) -> None:
        if self._url is None:
            await stopping.wait()
            return
        receiving = asyncio.create_task(self._reconnect(self._url))
        try:
            await stopping.wait()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _reconnect(self, url: str) -> None:
        while True:
            with suppress(*_LOST):
                await self._receive(url)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _receive(self, url: str) -> None:
        client: Any = redis.asyncio.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            # With a limit of its own, redis-py uses `asyncio.wait_for`, which loses a cancellation in Python
            # 3.11 (fixed in 3.12), so this task would never end. The limits below are ours.
            socket_timeout=None,
            protocol=2,
        )
        pubsub: Any = client.pubsub()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await pubsub.subscribe(*self._channels)
            while True:
                message = await pubsub.get_message(timeout=SILENCE_SECONDS)
                if message is None:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await pubsub.ping()
                        message = await pubsub.get_message(timeout=None)
                self._handle(message)
        except _LOST:
            if self.connected:
                log.warning("pubsub_lost")
                self.connected = False
                self._on_change()
            raise
        finally:
            self.connected = False
            await pubsub.aclose()
            await client.aclose()

    def _handle(self, message: dict[str, object]) -> None:
        match message:
            case {"type": "subscribe", "data": count} if count == len(self._channels):
                self.connected = True
                log.info("pubsub_connected")
                self._on_change()
            case {"type": "message", "channel": bytes(channel), "data": bytes(data)}:
                self._channels[channel](data)
            case _:
                pass
