"""Tells all processes of the moment, through Redis. What is told while somebody does not listen is lost to
them, so whoever needs it all also looks by himself.
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
# A server that is gone without a word is noticed after two of these.
SILENCE_SECONDS = 5.0
_LOST = (OSError, exceptions.RedisError, TimeoutError)

Hear = Callable[[bytes], None]


async def publish(client: RedisClient, channel: str, payload: bytes) -> bool:
    """Tell whoever listens now; False when Redis could not be asked."""
    try:
        await client.run(lambda raw: raw.publish(channel, payload))
    except RedisAway:
        return False
    return True


class Subscriber:
    """Hears the given channels, on a connection of its own, until told to stop; `connected` tells whether."""

    def __init__(
        self, url: str | None, heard: dict[str, Hear], *, on_change: Callable[[], None] = lambda: None
    ) -> None:
        """`on_change` is called whenever it begins or ceases to hear: what is told meanwhile is not known."""
        self._url = url
        self._heard = {channel.encode(): hear for channel, hear in heard.items()}
        self._on_change = on_change
        self.connected = False

    async def run(self, stopping: asyncio.Event) -> None:
        if self._url is None:
            await stopping.wait()
            return
        listening = asyncio.create_task(self._listen(self._url))
        try:
            await stopping.wait()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, url: str) -> None:
        while True:
            with suppress(*_LOST):
                await self._hear_on(url)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _hear_on(self, url: str) -> None:
        client: Any = redis.asyncio.from_url(  # pyright: ignore[reportUnknownMemberType]
            url, socket_connect_timeout=CONNECT_SECONDS, protocol=2
        )
        pubsub: Any = client.pubsub()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await pubsub.subscribe(*self._heard)
            while True:
                message = await pubsub.get_message(timeout=SILENCE_SECONDS)
                if message is None:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await pubsub.ping()
                        message = await pubsub.get_message(timeout=None)
                self._take(message)
        except _LOST:
            if self.connected:
                log.warning("fanout_lost")
                self.connected = False
                self._on_change()
            raise
        finally:
            self.connected = False
            await pubsub.aclose()
            await client.aclose()

    def _take(self, message: dict[str, object]) -> None:
        match message:
            case {"type": "subscribe", "data": count} if count == len(self._heard):
                self.connected = True
                log.info("fanout_connected")
                self._on_change()
            case {"type": "message", "channel": bytes(channel), "data": bytes(data)}:
                self._heard[channel](data)
            case _:
                pass
